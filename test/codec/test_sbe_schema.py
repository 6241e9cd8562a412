"""test_sbe_schema.py - an SBE codec that interprets the published schema and shares nothing with tools/sbegen.py: what
somebody with the schema and another language would have."""

import pathlib
import struct
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMATS = {"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "int16": "h", "int32": "i", "int64": "q", "double": "d"}


def kept_frames():
    """(name, bytes) of every file of test/codec/frames."""
    for path in sorted((ROOT / "test/codec/frames").glob("v*/*.hex")):
        lines = path.read_text().splitlines()
        yield path.stem, bytes.fromhex("".join(line[4:] for line in lines if line.startswith("hex ")))


class Schema:
    def __init__(self, path=ROOT / "codec/sluice_sbe.xml"):
        root = xml.etree.ElementTree.parse(path).getroot()
        self.id, self.version = int(root.get("id")), int(root.get("version"))
        self.primitives = {name: name for name in FORMATS}
        self.composites = {}
        self.choices = {}  # type -> name -> number, or bit of a set
        for node in root.find("types"):
            name = node.get("name")
            if node.tag == "composite":
                self.composites[name] = [member.get("primitiveType") for member in node]
            else:
                self.primitives[name] = node.get("primitiveType") or node.get("encodingType")
                self.choices[name] = {choice.get("name"): int(choice.text) for choice in node}
        self.messages = {int(node.get("id")): node for node in root if node.tag.endswith("message")}
        self.templates = {node.get("name"): template for template, node in self.messages.items()}

    def encode(self, message, /, **values):
        """A frame, its length word included. Values by field name; a group is a list of such."""
        template = self.templates[message]
        node = self.messages[template]
        block = self._block(node, values)
        body = struct.pack("<HHHH", len(block), template, self.id, self.version) + block
        for group in node.findall("group"):
            entries = values[group.get("name")]
            size = self.composites[group.get("dimensionType")]
            block_bytes = sum(struct.calcsize(FORMATS[self.primitives[field.get("type")]]) for field in group.findall("field"))
            body += struct.pack("<" + FORMATS[size[0]] + FORMATS[size[1]], block_bytes, len(entries))
            for entry in entries:
                body += self._block(group, entry) + self._data(group, entry)
        body += self._data(node, values)
        return struct.pack("<I", len(body)) + body

    def _block(self, node, values):
        return b"".join(struct.pack("<" + FORMATS[self.primitives[field.get("type")]], values[field.get("name")])
                        for field in node.findall("field"))

    def _data(self, node, values):
        return b"".join(struct.pack("<I", len(values[data.get("name")])) + values[data.get("name")]
                        for data in node.findall("data"))

    def decode(self, frame):
        """(message, values) of a frame, its length word included."""
        self.bytes, self.at = frame, 0
        assert self._take("uint32") == len(frame) - 4, "frame length"
        block_bytes, template, schema, _ = (self._take("uint16") for _ in range(4))
        assert schema == self.id, "schemaId"
        node = self.messages[template]
        values = dict(self._block_take(node, block_bytes))
        for group in node.findall("group"):
            size = self.composites[group.get("dimensionType")]
            entry_bytes, count = self._take(size[0]), self._take(size[1])
            values[group.get("name")] = [{**dict(self._block_take(group, entry_bytes)), **dict(self._data_take(group))}
                                         for _ in range(count)]
        values.update(self._data_take(node))
        assert self.at == len(frame), "trailing bytes"
        return node.get("name"), values

    def _take(self, primitive):
        value, = struct.unpack_from("<" + FORMATS[primitive], self.bytes, self.at)
        self.at += struct.calcsize("<" + FORMATS[primitive])
        return value

    def _block_take(self, node, block_bytes):
        end = self.at + block_bytes
        for field in node.findall("field"):
            yield field.get("name"), self._take(self.primitives[field.get("type")])
        assert self.at == end, "blockLength"

    def _data_take(self, node):
        for data in node.findall("data"):
            length = self._take("uint32")
            assert self.at + length <= len(self.bytes), "data length"
            yield data.get("name"), self.bytes[self.at:self.at + length]
            self.at += length
