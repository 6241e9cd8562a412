#!/usr/bin/python3
"""sbegen.py - C from an SBE 1.0 schema.

    sbegen.py --prefix sbe --header OUT.h --source OUT.c SCHEMA.xml
    sbegen.py --check SCHEMA.xml

The header holds constants, getters and encoders; the source holds the layout tables that codec/sbe_wire.c validates
messages against. What is read is the part of SBE 1.0 that keeps a message checkable in one pass; anything else, and any
schema that older and newer programs could not share, is refused with file:line and a reason.
"""
import argparse
import os
import re
import sys
import xml.parsers.expat

SBE_NAMESPACE = "http://fixprotocol.io/2016/sbe"
TEMPLATES_MAX = 255  # SBE_TEMPLATE_COUNT - 1 in codec/sbe_wire.h
PARTS_MAX = 8  # SBE_PARTS_MAX there
ENUM_VALUES_MAX = 64  # an enum's values are one 64-bit mask

# primitive type -> (bytes, C type, null value as SBE defines it)
PRIMITIVES = {
    "uint8": (1, "uint8_t", "UINT8_MAX"),
    "uint16": (2, "uint16_t", "UINT16_MAX"),
    "uint32": (4, "uint32_t", "UINT32_MAX"),
    "uint64": (8, "uint64_t", "UINT64_MAX"),
    "int8": (1, "int8_t", "INT8_MIN"),
    "int16": (2, "int16_t", "INT16_MIN"),
    "int32": (4, "int32_t", "INT32_MIN"),
    "int64": (8, "int64_t", "INT64_MIN"),
    "float": (4, "float", "__builtin_nanf(\"\")"),
    "double": (8, "double", "__builtin_nan(\"\")"),
}
ENUM_TYPES = ("uint8", "uint16", "uint32")

# A field, group or data is a C parameter or member of the same name.
RESERVED = frozenset(("at auto break case char const continue default do double else enum extern float for goto if inline int "
                      "long register restrict return short signed sizeof static struct switch typedef union unsigned void "
                      "volatile while").split())

ATTRIBUTES = {
    "messageSchema": ("package", "id", "version", "semanticVersion", "description", "byteOrder", "headerType"),
    "types": (),
    "type": ("name", "primitiveType", "description", "minValue", "maxValue", "length", "sinceVersion"),
    "composite": ("name", "description", "semanticType"),
    "enum": ("name", "encodingType", "description", "sinceVersion"),
    "validValue": ("name", "description", "sinceVersion"),
    "set": ("name", "encodingType", "description", "sinceVersion"),
    "choice": ("name", "description", "sinceVersion"),
    "message": ("name", "id", "description", "sinceVersion", "semanticType"),
    "field": ("name", "id", "type", "description", "sinceVersion", "presence", "offset", "semanticType"),
    "group": ("name", "id", "dimensionType", "description", "sinceVersion"),
    "data": ("name", "id", "type", "description", "sinceVersion"),
}


class SchemaError(Exception):
    pass


class Node:
    """An element with the line it began on."""

    def __init__(self, tag, attributes, line):
        self.tag = tag
        self.attributes = attributes
        self.line = line
        self.children = []
        self.text = ""


def read_xml(path):
    parser = xml.parsers.expat.ParserCreate(namespace_separator=" ")
    top = Node("", {}, 0)
    stack = [top]

    def begin(name, attributes):
        space, _, local = name.rpartition(" ")
        line = parser.CurrentLineNumber
        if space not in ("", SBE_NAMESPACE):
            raise SchemaError(f"{path}:{line}: element <{local}> is of the unknown namespace {space}")
        node = Node(local, attributes, line)
        stack[-1].children.append(node)
        stack.append(node)

    def text(data):
        stack[-1].text += data

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda name: stack.pop()
    parser.CharacterDataHandler = text
    try:
        with open(path, "rb") as file:
            parser.ParseFile(file)
    except OSError as error:
        raise SchemaError(f"{path}: {error.strerror}") from error
    except xml.parsers.expat.ExpatError as error:
        raise SchemaError(f"{path}:{error.lineno}: {xml.parsers.expat.ErrorString(error.code)}") from error
    return top.children[0]


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def comment_text(text):
    return " ".join(text.split()).replace("*/", "* /").replace("/*", "/ *")


class Type:
    """What a field can be: a number, an enum or a set."""

    def __init__(self, node, kind, primitive):
        self.name = node.attributes["name"]
        self.description = node.attributes.get("description", "")
        self.kind = kind
        self.primitive = primitive
        self.bytes, self.c_type, self.null = PRIMITIVES[primitive]
        self.values = []  # enum: (name, number, description); set: (name, bit, description)

    def allowed(self):
        return sum(1 << number for _, number, _ in self.values)


class Field:
    def __init__(self, name, since, description, type_, offset):
        self.name = name
        self.since = since
        self.description = description
        self.type = type_
        self.offset = offset


class Part:
    """A group or variable-length data."""

    def __init__(self, name, since, description):
        self.name = name
        self.since = since
        self.description = description
        self.is_group = False
        self.count_bytes = 0
        self.fields = []
        self.data = []


class Message:
    def __init__(self, name, template, since, description):
        self.name = name
        self.template = template
        self.since = since
        self.description = description
        self.fields = []
        self.parts = []


class Schema:
    def __init__(self, path):
        self.path = path
        self.types = {}
        self.group_sizes = {}  # composite name -> bytes of numInGroup
        self.data_types = set()
        self.messages = []
        root = read_xml(path)
        if root.tag != "messageSchema":
            self.fail(root, f"expected <messageSchema>, found <{root.tag}>")
        self.check_attributes(root, "package", "id", "version", "byteOrder", "headerType")
        self.package = self.identifier(root, "package")
        self.id = self.number(root, "id", 0, 65535)
        self.version = self.number(root, "version", 0, 65534)
        if root.attributes["byteOrder"] != "littleEndian":
            self.fail(root, f"byteOrder \"{root.attributes['byteOrder']}\" is not supported: use littleEndian")
        for child in root.children:
            if child.tag == "types":
                self.check_attributes(child)
                for node in child.children:
                    self.read_type(node)
        self.check_header(root)
        for child in root.children:
            if child.tag == "message":
                self.read_message(child)
            elif child.tag != "types":
                self.fail(child, f"unexpected <{child.tag}>")
        if not self.messages:
            self.fail(root, "the schema has no message")

    def fail(self, node, reason):
        raise SchemaError(f"{self.path}:{node.line}: {reason}")

    def check_attributes(self, node, *required):
        if node.tag not in ATTRIBUTES:
            self.fail(node, f"unexpected <{node.tag}>")
        for name in node.attributes:
            if name not in ATTRIBUTES[node.tag]:
                self.fail(node, f"<{node.tag}>: attribute \"{name}\" is unknown or not supported")
        for name in required:
            if name not in node.attributes:
                self.fail(node, f"<{node.tag}>: attribute \"{name}\" is missing")

    def identifier(self, node, attribute):
        name = node.attributes[attribute]
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
            self.fail(node, f"{attribute} \"{name}\" is not a name: letters, digits and _, a letter first")
        return name

    def number(self, node, attribute, low, high, default=None):
        text = node.attributes.get(attribute)
        if text is None:
            return default
        if not re.fullmatch(r"[0-9]{1,20}", text) or not low <= int(text) <= high:
            self.fail(node, f"{attribute} \"{text}\" is not a number from {low} to {high}")
        return int(text)

    def since(self, node, low, high=None):
        version = self.number(node, "sinceVersion", 0, 65534, low)
        if version > self.version:
            self.fail(node, f"sinceVersion {version} is later than the schema's version {self.version}")
        if version < low:
            self.fail(node, f"sinceVersion {version} comes after version {low}: new fields and data go last")
        if high is not None and version > high:
            self.fail(node, f"sinceVersion {version}: a {node.tag} cannot be added here later, readers of version {high} "
                            "could not skip it; append to the root or add a message")
        return version

    # Types

    def read_type(self, node):
        self.check_attributes(node, "name")
        name = self.identifier(node, "name")
        if name in self.types or name in self.group_sizes or name in self.data_types or name in PRIMITIVES:
            self.fail(node, f"type \"{name}\" is declared twice")
        if node.tag == "type":
            self.read_number_type(node, name)
        elif node.tag in ("enum", "set"):
            self.read_choices(node, name)
        elif node.tag == "composite":
            self.read_composite(node, name)
        else:
            self.fail(node, f"unexpected <{node.tag}> in <types>")

    def primitive(self, node, attribute, among):
        self.check_attributes(node, attribute)
        primitive = node.attributes[attribute]
        if primitive not in among:
            self.fail(node, f"{attribute} \"{primitive}\" is not supported here: one of {', '.join(among)}")
        return primitive

    def read_number_type(self, node, name):
        primitive = self.primitive(node, "primitiveType", tuple(PRIMITIVES))
        if "length" in node.attributes:
            self.fail(node, f"type \"{name}\": arrays are not supported, use variable-length data")
        self.types[name] = Type(node, "number", primitive)

    def read_choices(self, node, name):
        primitive = self.primitive(node, "encodingType", ENUM_TYPES)
        type_ = Type(node, node.tag, primitive)
        child_tag = "validValue" if node.tag == "enum" else "choice"
        bits = type_.bytes * 8
        high = bits - 1 if node.tag == "set" else min(ENUM_VALUES_MAX, (1 << bits) - 1) - 1
        for child in node.children:
            self.check_attributes(child, "name")
            if child.tag != child_tag:
                self.fail(child, f"unexpected <{child.tag}> in <{node.tag}>")
            value_name = self.identifier(child, "name")
            self.since(child, 0)
            text = child.text.strip()
            if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) > high:
                self.fail(child, f"{name}.{value_name}: \"{text}\" is not a number from 0 to {high}")
            for other, number, _ in type_.values:
                if snake(other) == snake(value_name):
                    self.fail(child, f"{name}.{value_name} is declared twice")
                if number == int(text):
                    self.fail(child, f"{name}.{value_name}: {other} has the number {text} already")
            type_.values.append((value_name, int(text), child.attributes.get("description", "")))
        if not type_.values:
            self.fail(node, f"{node.tag} \"{name}\" has no <{child_tag}>")
        self.types[name] = type_

    def read_composite(self, node, name):
        members = []
        for child in node.children:
            self.check_attributes(child, "name", "primitiveType")
            if child.tag != "type":
                self.fail(child, f"unexpected <{child.tag}> in <composite>")
            members.append((child.attributes["name"], self.primitive(child, "primitiveType", tuple(PRIMITIVES))))
        names = [member for member, _ in members]
        if names == ["blockLength", "numInGroup"]:
            if members[0][1] != "uint16" or members[1][1] not in ("uint8", "uint16", "uint32"):
                self.fail(node, f"composite \"{name}\": blockLength is uint16; numInGroup is uint8, uint16 or uint32")
            self.group_sizes[name] = PRIMITIVES[members[1][1]][0]
        elif names == ["length", "varData"]:
            if members[0][1] != "uint32" or members[1][1] != "uint8" or node.children[1].attributes.get("length") != "0":
                self.fail(node, f"composite \"{name}\": length is uint32, varData is uint8 with length=\"0\"")
            self.data_types.add(name)
        elif names == ["blockLength", "templateId", "schemaId", "version"]:
            if any(primitive != "uint16" for _, primitive in members):
                self.fail(node, f"composite \"{name}\": every member of a message header is uint16")
            self.types[name] = None
        else:
            self.fail(node, f"composite \"{name}\" is neither a message header, a group size nor variable-length data")

    def check_header(self, root):
        header = root.attributes["headerType"]
        if header not in self.types or self.types[header] is not None:
            self.fail(root, f"headerType \"{header}\" is not a declared message header")

    # Messages

    def read_message(self, node):
        self.check_attributes(node, "name", "id")
        name = self.identifier(node, "name")
        template = self.number(node, "id", 1, TEMPLATES_MAX)
        message = Message(name, template, self.since(node, 0), node.attributes.get("description", ""))
        for other in self.messages:
            if other.template == template:
                self.fail(node, f"message \"{name}\": id {template} belongs to {other.name} already")
            if snake(other.name) == snake(name):
                self.fail(node, f"message \"{name}\" is declared twice")
        ids = {}
        self.read_block(node, message, ids, message.since)
        if not message.fields or message.fields[0].name != "correlation" or \
                message.fields[0].type.primitive != "uint64":
            self.fail(node, f"message \"{name}\": the first field must be \"correlation\", a uint64")
        if len(message.parts) > PARTS_MAX:
            self.fail(node, f"message \"{name}\": more than {PARTS_MAX} groups and variable-length data")
        self.messages.append(message)

    def read_block(self, node, owner, ids, since):
        """Fields, then groups, then data, as SBE orders them; `owner` is a Message or a group's Part."""
        stage = 0
        last = {"field": since, "data": since}
        offset = 0
        names = set()
        for child in node.children:
            if child.tag not in ("field", "group", "data"):
                self.fail(child, f"unexpected <{child.tag}> in <{node.tag}>")
            child_stage = ("field", "group", "data").index(child.tag)
            if child_stage < stage:
                self.fail(child, "fields come first, then groups, then variable-length data")
            stage = child_stage
            self.check_attributes(child, "name", "id")
            name = self.identifier(child, "name")
            if snake(name) in names:
                self.fail(child, f"\"{name}\" is declared twice")
            if snake(name) in RESERVED:
                self.fail(child, f"\"{name}\" cannot be a name in C")
            names.add(snake(name))
            number = self.number(child, "id", 1, 65534)
            if number in ids:
                self.fail(child, f"\"{name}\": id {number} belongs to {ids[number]} already")
            ids[number] = name
            if child.tag == "field":
                field = self.read_field(child, name, last, offset)
                offset += field.type.bytes
                owner.fields.append(field)
            elif child.tag == "group":
                if node.tag == "group":
                    self.fail(child, f"group \"{name}\": groups inside groups are not supported")
                owner.parts.append(self.read_group(child, name, ids, since))
            else:
                data = self.read_data(child, name, last, since if node.tag == "group" else None)
                (owner.parts if node.tag == "message" else owner.data).append(data)

    def read_field(self, node, name, last, offset):
        self.check_attributes(node, "type")
        if node.attributes.get("presence", "required") != "required":
            self.fail(node, f"field \"{name}\": only presence=\"required\" is supported")
        type_name = node.attributes["type"]
        if type_name in PRIMITIVES:
            type_ = Type(Node("type", {"name": type_name}, node.line), "number", type_name)
        else:
            type_ = self.types.get(type_name)
        if type_ is None:
            self.fail(node, f"field \"{name}\": type \"{type_name}\" is not declared, or not a field's")
        last["field"] = self.since(node, last["field"])
        given = self.number(node, "offset", 0, 65535, offset)
        if given != offset:
            self.fail(node, f"field \"{name}\" begins at {offset}, not at {given}: padding is not supported")
        return Field(name, last["field"], node.attributes.get("description", type_.description), type_, offset)

    def read_group(self, node, name, ids, since):
        self.check_attributes(node, "dimensionType")
        dimension = node.attributes["dimensionType"]
        if dimension not in self.group_sizes:
            self.fail(node, f"group \"{name}\": dimensionType \"{dimension}\" is not a declared group size")
        group = Part(name, self.since(node, since, since), node.attributes.get("description", ""))
        group.is_group = True
        group.count_bytes = self.group_sizes[dimension]
        self.read_block(node, group, ids, since)
        if not group.fields and not group.data:
            self.fail(node, f"group \"{name}\": an entry without bytes could be counted without end")
        return group

    def read_data(self, node, name, last, since_max):
        self.check_attributes(node, "type")
        if node.attributes["type"] not in self.data_types:
            self.fail(node, f"data \"{name}\": type \"{node.attributes['type']}\" is not variable-length data")
        last["data"] = self.since(node, last["data"], since_max)
        return Part(name, last["data"], node.attributes.get("description", ""))

    def block_bytes(self, fields, version):
        return sum(field.type.bytes for field in fields if field.since <= version)


class Writer:
    """Emits C; every identifier once, so that names of a schema cannot collide."""

    def __init__(self, schema, prefix):
        self.schema = schema
        self.prefix = prefix
        self.lines = []
        self.names = {}

    def declare(self, name, what):
        if name in self.names:
            raise SchemaError(f"{self.schema.path}: {what} and {self.names[name]} are both called {name} in C")
        self.names[name] = what
        return name

    def put(self, *lines):
        self.lines.extend(lines)

    def comment(self, text):
        if text:
            self.put(f"/* {comment_text(text)} */")

    def block_array(self, fields):
        return ", ".join(str(self.schema.block_bytes(fields, version)) for version in range(self.schema.version + 1))


class HeaderWriter(Writer):
    def write(self, guard_name):
        schema = self.schema
        self.put(f"/* {guard_name} - generated by tools/sbegen.py from {os.path.basename(schema.path)}: do not edit. */",
                 "#pragma once", '#include "codec/sbe_wire.h"', "")
        upper = self.prefix.upper()
        self.put("enum {",
                 f"    {self.declare(upper + '_SCHEMA_ID', 'the schema id')} = {schema.id},",
                 f"    {self.declare(upper + '_SCHEMA_VERSION', 'the schema version')} = {schema.version},",
                 "};", "",
                 f"extern const struct sbe_schema {self.declare(self.prefix + '_schema', 'the schema')};", "")
        for type_ in schema.types.values():
            if type_ is not None and type_.kind in ("enum", "set"):
                self.write_choices(type_)
        for message in schema.messages:
            self.write_message(message)
        return "\n".join(self.lines) + "\n"

    def write_choices(self, type_):
        base = f"{self.prefix}_{snake(type_.name)}"
        self.comment(type_.description)
        self.put(f"enum {base} {{")
        for name, number, description in type_.values:
            constant = self.declare(f"{base}_{snake(name)}".upper(), f"{type_.name}.{name}")
            value = f"1u << {number}" if type_.kind == "set" else str(number)
            note = f" /* {comment_text(description)} */" if description else ""
            self.put(f"    {constant} = {value},{note}")
        self.put("};", "")

    def write_message(self, message):
        base = f"{self.prefix}_{snake(message.name)}"
        head = 8 + self.schema.block_bytes(message.fields, self.schema.version)
        self.put(f"/* {message.name} */")
        self.comment(message.description)
        self.put("enum {",
                 f"    {self.declare(base.upper() + '_TEMPLATE', message.name)} = {message.template},",
                 f"    {self.declare(base.upper() + '_BLOCK_BYTES', message.name)} = {head - 8},",
                 f"    {self.declare(base.upper() + '_HEAD_BYTES', message.name)} = {head}, /* header and block */",
                 "};")
        for field in message.fields:
            self.write_getter(base, field)
        for i, part in enumerate(message.parts):
            self.comment(part.description)
            if part.is_group:
                self.write_group(base, i, part)
            else:
                function = self.declare(f"{base}_{snake(part.name)}", f"{message.name}.{part.name}")
                self.put("static inline struct slice", f"{function}(const struct sbe_view *view)", "{",
                         f"    return sbe_view_data(view, {i});", "}")
        # Enums stay numbers in C: a newer sender's value need not be one of ours.
        parameters = "".join(f", {field.type.c_type} {snake(field.name)}" for field in message.fields)
        self.put("/* Header and block at `at`, which has the room; returns the byte after. */",
                 "static inline uint8_t *",
                 f"{self.declare(base + '_put', message.name)}(uint8_t *at{parameters})", "{",
                 f"    at = sbe_put_header(at, {head - 8}, {message.template}, {self.schema.id}, {self.schema.version});")
        self.write_stores(message.fields)
        self.put(f"    return at + {head - 8};", "}", "")

    def write_getter(self, base, field):
        function = self.declare(f"{base}_{snake(field.name)}", field.name)
        self.comment(field.description)
        if field.since > 0:
            has = self.declare(f"{base}_has_{snake(field.name)}", field.name)
            self.put("static inline bool", f"{has}(const struct sbe_view *view)", "{",
                     f"    return view->version >= {field.since};", "}")
        self.put(f"static inline {field.type.c_type}", f"{function}(const struct sbe_view *view)", "{")
        self.put(f"    return {self.load(field, 'view->block', 'view->version')};", "}")

    def load(self, field, block, version):
        load = f"sbe_load_{field.type.primitive}({block} + {field.offset})"
        if field.since == 0:
            return load
        absent = "0" if field.type.kind == "set" else field.type.null
        return f"{version} >= {field.since} ? {load} : {absent}"

    def write_stores(self, fields):
        for field in fields:
            self.put(f"    sbe_store_{field.type.primitive}(at + {field.offset}, {snake(field.name)});")

    def write_group(self, base, index, group):
        base = f"{base}_{snake(group.name)}"
        size = 2 + group.count_bytes
        block = self.schema.block_bytes(group.fields, self.schema.version)
        count_type = f"uint{group.count_bytes * 8}"
        self.put(f"struct {base}_entry {{")
        for field in group.fields:
            self.put(f"    {field.type.c_type} {snake(field.name)};")
        for data in group.data:
            self.put(f"    struct slice {snake(data.name)};")
        self.put("};",
                 "enum {",
                 f"    {self.declare(base.upper() + '_SIZE_BYTES', group.name)} = {size}, /* before the first entry */",
                 f"    {self.declare(base.upper() + '_BLOCK_BYTES', group.name)} = {block},",
                 "};",
                 "static inline struct sbe_group",
                 f"{self.declare(base, group.name)}(const struct sbe_view *view)", "{",
                 f"    const uint8_t *at = view->block + view->parts[{index}];",
                 f"    return (struct sbe_group){{ at + {size}, sbe_load_{count_type}(at + 2), sbe_load_uint16(at), "
                 "view->version };", "}",
                 "static inline bool",
                 f"{self.declare(base + '_next', group.name)}(struct sbe_group *group, struct {base}_entry *entry)", "{",
                 "    if (group->left == 0) {", "        return false;", "    }", "    group->left--;")
        for field in group.fields:
            self.put(f"    entry->{snake(field.name)} = {self.load(field, 'group->at', 'group->version')};")
        self.put("    group->at += group->block_bytes;")
        for data in group.data:
            self.put(f"    entry->{snake(data.name)} = sbe_take_data(&group->at);")
        self.put("    return true;", "}",
                 "static inline uint8_t *",
                 f"{self.declare(base + '_put', group.name)}(uint8_t *at, {count_type}_t count)", "{",
                 f"    sbe_store_uint16(at, {block});",
                 f"    sbe_store_{count_type}(at + 2, count);",
                 f"    return at + {size};", "}")
        if group.fields:
            parameters = "".join(f", {field.type.c_type} {snake(field.name)}" for field in group.fields)
            self.put("static inline uint8_t *",
                     f"{self.declare(base + '_entry_put', group.name)}(uint8_t *at{parameters})", "{")
            self.write_stores(group.fields)
            self.put(f"    return at + {block};", "}")


class SourceWriter(Writer):
    def write(self, include):
        schema = self.schema
        self.put(f"/* generated by tools/sbegen.py from {os.path.basename(schema.path)}: do not edit. */",
                 f'#include "{include}"', "")
        for message in schema.messages:
            self.write_parts(message)
        self.put("static const struct sbe_layout layouts[] = {")
        for message in schema.messages:
            base = snake(message.name)
            checks = self.checks(message.fields)
            self.put(f"    {{ .name = \"{message.name}\", .template_id = {message.template}, .since = {message.since},",
                     f"      .checks_count = {len(checks)}, .parts_count = {len(message.parts)},",
                     f"      .block_bytes = {base}_block, .checks = {base + '_checks' if checks else 'NULL'},",
                     f"      .parts = {base + '_parts' if message.parts else 'NULL'} }},")
        self.put("};", "",
                 f"const struct sbe_schema {self.prefix}_schema = {{",
                 f"    .id = {schema.id},",
                 f"    .version = {schema.version},",
                 "    .layouts = layouts,",
                 "    .template_index = {")
        for index, message in enumerate(schema.messages):
            self.put(f"        [{message.template}] = {index + 1},")
        self.put("    },", "};")
        return "\n".join(self.lines) + "\n"

    def checks(self, fields):
        return [field for field in fields if field.type.kind in ("enum", "set")]

    def write_block(self, base, fields):
        self.put(f"static const uint16_t {base}_block[] = {{ {self.block_array(fields)} }};")
        checks = self.checks(fields)
        if checks:
            self.put(f"static const struct sbe_check {base}_checks[] = {{")
            for field in checks:
                is_set = "true" if field.type.kind == "set" else "false"
                self.put(f"    {{ .offset = {field.offset}, .since = {field.since}, .bytes = {field.type.bytes}, "
                         f".is_set = {is_set}, .allowed = {field.type.allowed():#x} }}, /* {field.name} */")
            self.put("};")
        return len(checks)

    def write_parts(self, message):
        base = snake(message.name)
        self.write_block(base, message.fields)
        rows = []
        for part in message.parts:
            if not part.is_group:
                rows.append(f"    {{ .since = {part.since} }}, /* {part.name} */")
                continue
            group = f"{base}_{snake(part.name)}"
            checks = self.write_block(group, part.fields)
            rows.append(f"    {{ .is_group = true, .count_bytes = {part.count_bytes}, .data_count = {len(part.data)}, "
                        f".checks_count = {checks}, .since = {part.since}, .block_bytes = {group}_block, "
                        f".checks = {group + '_checks' if checks else 'NULL'} }}, /* {part.name} */")
        if rows:
            self.put(f"static const struct sbe_part {base}_parts[] = {{", *rows, "};")
        self.put("")


def main():
    parser = argparse.ArgumentParser(description="C from an SBE 1.0 schema")
    parser.add_argument("schema")
    parser.add_argument("--prefix", help="of every C name; default: the schema's package")
    parser.add_argument("--header", help="where constants, getters and encoders go")
    parser.add_argument("--source", help="where the layout tables go")
    parser.add_argument("--include", help="how the source includes the header; default: its file name")
    parser.add_argument("--check", action="store_true", help="only check the schema")
    options = parser.parse_args()
    if not options.check and not (options.header and options.source):
        parser.error("--header and --source are needed, or --check")
    try:
        schema = Schema(options.schema)
        prefix = options.prefix or snake(schema.package)
        include = options.include or os.path.basename(options.header or "schema.h")
        header = HeaderWriter(schema, prefix).write(include)
        source = SourceWriter(schema, prefix).write(include)
    except SchemaError as error:
        print(error, file=sys.stderr)
        return 1
    if not options.check:
        for path, text in ((options.header, header), (options.source, source)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
