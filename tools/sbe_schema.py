"""sbe_schema.py - an SBE 1.0 schema, read and checked.

What is read is the part of SBE 1.0 that keeps a message checkable in one pass; anything else, and any schema that older
and newer programs could not share, is refused with file:line and a reason.
"""
import re
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
