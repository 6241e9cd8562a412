#!/usr/bin/python3
"""test_sbegen.py - the generator refuses what it cannot promise, and the published schema alone explains kept frames."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from test_sbe_schema import Schema, kept_frames

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import sbe_schema  # noqa: E402
import sbegen  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SBEGEN = ROOT / "tools/sbegen.py"
SCHEMA = ROOT / "codec/sluice_sbe.xml"

GOOD = (ROOT / "test/codec/test_sbe_v1.xml").read_text()


def run(*arguments):
    return subprocess.run([sys.executable, SBEGEN, *arguments], capture_output=True, text=True)


def refusal(text):
    """What the generator says about a schema; None: it takes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "schema.xml"
        path.write_text(text)
        try:
            sbegen.generate(path, "prefix", "schema.h")
        except sbe_schema.SchemaError as error:
            return str(error)
    return None


# (what is wrong, text of the good schema whose last occurrence is replaced, text in its place, what the error says)
FAULTS = [
    ("not XML", "</types>", "</typos>", "mismatched tag"),
    ("a foreign namespace", "http://fixprotocol.io/2016/sbe", "http://example.com/sbe", "unknown namespace"),
    ("no id", ' id="7" version', " version", 'attribute "id" is missing'),
    ("an id that is no number", ' id="7" version', ' id="seven" version', 'id "seven" is not a number from 0 to 65535'),
    ("an id too large", ' id="7" version', ' id="65536" version', 'id "65536" is not a number'),
    ("a negative version", ' version="1"', ' version="-1"', 'version "-1" is not a number'),
    ("big-endian", "littleEndian", "bigEndian", 'byteOrder "bigEndian" is not supported'),
    ("no such header", 'headerType="messageHeader"', 'headerType="Color"', 'headerType "Color" is not a declared message header'),
    ("an unknown attribute", '<set name="Marks"', '<set title="x" name="Marks"', 'attribute "title" is unknown'),
    ("an unknown element", "<set name=", "<bag/><set name=", "unexpected <bag>"),
    ("a type twice", '<set name="Marks"', '<set name="Color"', 'type "Color" is declared twice'),
    ("a primitive's name", '<set name="Marks"', '<set name="int32"', 'type "int32" is declared twice'),
    ("a bad name", '<set name="Marks"', '<set name="2marks"', '"2marks" is not a name'),
    ("a signed enum", 'encodingType="uint16"', 'encodingType="int16"', 'encodingType "int16" is not supported here'),
    ("an enum value twice", ">2</validValue>", ">1</validValue>", "BLUE has the number 1 already"),
    ("an enum name twice", 'name="GREEN"', 'name="RED"', "Color.RED is declared twice"),
    ("an enum value too large", ">2</validValue>", ">64</validValue>", '"64" is not a number from 0 to 63'),
    ("an enum value of letters", ">2</validValue>", ">two</validValue>", '"two" is not a number'),
    ("a choice of another element", '<choice name="gift">30</choice>', '<validValue name="gift">30</validValue>',
     "unexpected <validValue> in <set>"),
    ("a choice beyond its type", ">30</choice>", ">32</choice>", '"32" is not a number from 0 to 31'),
    ("an empty set", '<choice name="urgent">0</choice>\n            <choice name="gift">30</choice>', "", 'set "Marks" has no <choice>'),
    ("a header of another shape", '<type name="schemaId" primitiveType="uint16"/>', "", "is neither a message header"),
    ("a header of other types", '<type name="schemaId" primitiveType="uint16"/>', '<type name="schemaId" primitiveType="uint32"/>',
     "every member of a message header is uint16"),
    ("a signed group count", '<type name="numInGroup" primitiveType="uint8"/>', '<type name="numInGroup" primitiveType="int8"/>',
     "numInGroup is uint8, uint16 or uint32"),
    ("a data length of another type", '<type name="length" primitiveType="uint32"/>', '<type name="length" primitiveType="uint16"/>',
     "length is uint32"),
    ("a message id twice", 'name="Extra" id="2"', 'name="Extra" id="1"', "id 1 belongs to Order already"),
    ("a message id beyond the tables", 'name="Extra" id="2"', 'name="Extra" id="256"', 'id "256" is not a number from 1 to 255'),
    ("a message name twice", 'name="Extra"', 'name="Order"', 'message "Order" is declared twice'),
    ("a message from the future", 'id="2" sinceVersion="1"', 'id="2" sinceVersion="2"', "sinceVersion 2 is later than the schema's version 1"),
    ("no correlation", '<field name="correlation" id="1" type="uint64"/>\n    </sbe:message>', "</sbe:message>",
     'the first field must be "correlation"'),
    ("a narrow correlation", '<field name="correlation" id="1" type="uint64"/>\n    </sbe:message>',
     '<field name="correlation" id="1" type="uint32"/></sbe:message>', 'the first field must be "correlation", a uint64'),
    ("a field id twice", 'name="rank" id="8"', 'name="rank" id="2"', '"rank": id 2 belongs to color already'),
    ("a field id twice across a group", 'name="price" id="10"', 'name="price" id="2"', '"price": id 2 belongs to color already'),
    ("a field name twice", 'name="rank"', 'name="color"', '"color" is declared twice'),
    ("a C keyword", 'name="rank"', 'name="register"', '"register" cannot be a name in C'),
    ("an unknown type", 'name="rank" id="8" type="int16"', 'name="rank" id="8" type="int128"', 'type "int128" is not declared'),
    ("a header as a field", 'name="rank" id="8" type="int16"', 'name="rank" id="8" type="messageHeader"', "is not declared, or not a field's"),
    ("an optional field", 'name="rank"', 'presence="optional" name="rank"', 'only presence="required" is supported'),
    ("padding", 'name="rank"', 'offset="12" name="rank"', 'field "rank" begins at 10, not at 12'),
    ("an old field after a newer one", 'type="Marks" sinceVersion="1"', 'type="Marks" sinceVersion="0"', "sinceVersion 0 comes after version 1"),
    ("an unknown group size", 'dimensionType="groupSizeEncoding"', 'dimensionType="varDataEncoding"', "is not a declared group size"),
    ("a group added later", 'name="items" id="3"', 'sinceVersion="1" name="items" id="3"', "a group cannot be added here later"),
    ("data added to entries later", 'name="label" id="6"', 'sinceVersion="1" name="label" id="6"', "a data cannot be added here later"),
    ("a group in a group", '<data name="label" id="6" type="varDataEncoding"/>',
     '<group name="inner" id="6" dimensionType="groupSizeEncoding"/>', "groups inside groups are not supported"),
    ("data of a number type", 'name="name" id="7" type="varDataEncoding"', 'name="name" id="7" type="uint8"', "is not variable-length data"),
    ("data before a group", '<group name="items"', '<data name="early" id="20" type="varDataEncoding"/><group name="items"',
     "fields come first, then groups, then variable-length data"),
    ("a field after data", '<data name="note"', '<data name="note2" id="20" type="varDataEncoding"/><field name="late" id="21" type="int8"/><data name="note"',
     "fields come first"),
    ("an array type", "<enum name=", '<type name="Code" primitiveType="uint8" length="4"/><enum name=', "arrays are not supported"),
    ("names that collide in C", 'name="rank"', 'name="hasMarks"', "are both called"),
]


class Generator(unittest.TestCase):
    def assert_refused(self, text, reason):
        error = refusal(text)
        self.assertIsNotNone(error)
        self.assertRegex(error, r"schema\.xml:\d+: |are both called")
        self.assertNotIn("\n", error)
        self.assertIn(reason, error)

    def test_each_fault_is_refused_with_its_reason(self):
        for name, good, bad, reason in FAULTS:
            with self.subTest(name):
                self.assertIn(good, GOOD)
                head, _, tail = GOOD.rpartition(good)
                self.assert_refused(head + bad + tail, reason)

    def test_the_line_of_the_fault_is_named(self):
        lines = GOOD.splitlines()
        number = next(i for i, line in enumerate(lines, 1) if 'name="rank"' in line)
        text = GOOD.replace('name="rank" id="8" type="int16"', 'name="rank" id="8" type="nothing"')
        self.assert_refused(text, f"schema.xml:{number}: ")

    def test_another_root_is_refused(self):
        self.assert_refused(GOOD.replace("sbe:messageSchema", "sbe:schema"), "expected <messageSchema>, found <schema>")

    def test_a_schema_without_messages_is_refused(self):
        self.assert_refused(re.sub(r"<sbe:message .*</sbe:message>", "", GOOD, flags=re.S), "the schema has no message")

    def test_a_field_without_a_version_follows_the_one_before(self):
        self.assertIsNone(refusal(GOOD.replace('type="Marks" sinceVersion="1"', 'type="Marks"')))

    def test_entries_without_bytes_are_refused(self):
        text = re.sub(r'(<group name="items"[^>]*>).*(</group>)', r"\1\2", GOOD, flags=re.S)
        self.assert_refused(text, "an entry without bytes could be counted without end")

    def test_parts_are_limited_to_what_the_tables_hold(self):
        data = "".join(f'<data name="d{i}" id="{20 + i}" type="varDataEncoding"/>' for i in range(5))
        add = '<data name="name" id="7" type="varDataEncoding"/>'
        self.assert_refused(GOOD.replace(add, add + data), "more than 8 groups and variable-length data")
        self.assertIsNone(refusal(GOOD.replace(add, add + data[:data.rindex("<")])))

    def test_a_missing_file_is_one_line(self):
        result = run("--check", "/nonexistent.xml")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "/nonexistent.xml: No such file or directory\n")

    def test_the_published_schema_and_the_tests_pass(self):
        for path in (SCHEMA, ROOT / "test/codec/test_sbe_v0.xml", ROOT / "test/codec/test_sbe_v1.xml"):
            result = run("--check", path)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_refused_schema_leaves_no_output(self):
        with tempfile.TemporaryDirectory() as folder:
            schema, header, source = (pathlib.Path(folder) / name for name in ("a.xml", "a.h", "a.c"))
            schema.write_text(GOOD.replace("littleEndian", "middle"))
            result = run("--header", header, "--source", source, schema)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"^.*a\.xml:\d+: [^\n]*\n$")
            self.assertFalse(header.exists() or source.exists())


class KeptFrames(unittest.TestCase):
    def test_the_schema_alone_explains_each(self):
        reader = Schema(SCHEMA)
        seen = {}
        for name, frame in kept_frames():
            with self.subTest(name):
                message, values = reader.decode(frame)
                self.assertEqual(reader.encode(message, **values), frame)
                seen.setdefault(message, []).append(values)
                self.assertEqual(values["correlation"], 0 if message == "Push" else 0x0807060504030201)
        self.assertEqual({node.get("name") for node in reader.messages.values()}, set(seen), "a frame for each message")
        self.assertIn({"correlation": 0x0807060504030201, "expiry": 1500, "expiryKind": 1, "options": 5, "key": b"key",
                       "value": b"value"}, seen["Set"])
        self.assertIn({"correlation": 0x0807060504030201, "options": 0, "key": b"z", "members":
                       [{"score": 1.5, "member": b"one"}, {"score": float("-inf"), "member": b"two"}]}, seen["Zadd"])
        self.assertEqual(seen["Push"][0]["values"][3], {"kind": 5, "bytes": b"hello"})


if __name__ == "__main__":
    unittest.main()
