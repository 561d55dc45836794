package transcode

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxEntries limits the entries of a map: each is compared with all previous ones.
const maxEntries = 64

// entries encodes the entries of a map.
func (e *encoder) entries(f *field, i, depth int) int {
	if depth == maxDepth {
		return no
	}
	first := len(e.out)
	i, last := e.open(i, '{', '}')
	for n := 0; !last; n++ {
		if n == maxEntries || f.kind == unusual {
			return no
		}
		before := len(e.out)
		length := e.begin(f.tag)
		if i = e.text(keyTag, i); i == no {
			return no
		}
		if e.hasKey(f.tag, e.out[first:before], e.out[length+1:]) {
			return no
		}
		if i = e.colon(i); i == no {
			return no
		}
		if i = e.value(f.entry, i, depth+1); i == no {
			return no
		}
		e.end(length)
		i, last = e.more(i, '}')
	}
	return i
}

// hasKey reports whether one of the given entries has the key, which is encoded with
// its tag and length.
func (e *encoder) hasKey(tag uint64, entries, key []byte) bool {
	for len(entries) > 0 {
		entry := entries[protowire.SizeVarint(tag):]
		size, n := binary.Uvarint(entry)
		entry, entries = entry[n:n+int(size)], entry[n+int(size):]
		if len(entry) >= len(key) && string(entry[:len(key)]) == string(key) {
			return true
		}
	}
	return false
}
