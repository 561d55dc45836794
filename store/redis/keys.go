package redis

import (
	"io"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/store"
)

const (
	// bucketCount spreads the keys over the shards of a Cluster, and bounds the cost of
	// an insertion into the index. It is part of the layout.
	bucketCount = 256
	slotCount   = 16384
)

// bucketTags are the buckets' hash tags: that of bucket b has a slot in the b-th of
// 256 equal ranges, so that shards with equal shares of the slots get equal shares of
// the buckets.
var bucketTags = spreadTags()

func spreadTags() (tags [bucketCount]string) {
	for n, missing := 0, bucketCount; missing > 0; n++ {
		tag := strconv.FormatInt(int64(n), 36)
		if b := slot(tag) / (slotCount / bucketCount); tags[b] == "" {
			tags[b] = tag
			missing--
		}
	}
	return tags
}

// slot returns the Cluster slot of a hash tag.
func slot(tag string) int { return int(crc16(tag)) % slotCount }

// crc16 is the CRC-16/XMODEM of Redis Cluster's specification.
func crc16(s string) uint16 { return crc16After(0, s) }

// crc16After continues a CRC with s.
func crc16After(crc uint16, s string) uint16 {
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return crc
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// partLetters are the prefixes of the letters of a part's keys; histories have none.
var partLetters = map[store.Part]string{
	"": "", store.Specs: "s", store.Observations: "o", store.Overrides: "v", store.Fleets: "f", store.FleetMembers: "m", store.Forecasts: "p", store.ChunksPart: "r",
}

// layout names the keys in Redis, of histories or of a part.
type layout struct {
	part string // its letter
	// bases are the prefixes of each bucket's keys: key prefix and hash tag.
	bases *[bucketCount]string
	// longest is the length of the longest base.
	longest int
}

func newLayout(prefix string) *layout {
	l := &layout{bases: new([bucketCount]string)}
	for b, tag := range bucketTags {
		l.bases[b] = prefix + "{" + tag + "}"
		l.longest = max(l.longest, len(l.bases[b]))
	}
	return l
}

// of returns the layout of a part, with the same prefix.
func (l *layout) of(part store.Part) *layout {
	return &layout{part: partLetters[part], bases: l.bases, longest: l.longest}
}

// place locates a key's data.
type place struct {
	base, name string
}

func (l *layout) place(key store.Key) place {
	name := key.Cluster + "/" + key.Namespace + "/" + key.Target
	base := l.bases[l.bucket(key)]
	if l.part != "" {
		base += l.part
	}
	return place{base, name}
}

// writeRecord writes the name of the key's record.
func (l *layout) writeRecord(to io.StringWriter, key store.Key) {
	for _, part := range [...]string{l.bases[l.bucket(key)], l.part, "h:", key.Cluster, "/", key.Namespace, "/", key.Target} {
		_, _ = to.WriteString(part)
	}
}

// index is the name of a bucket's index.
func (l *layout) index(bucket int) string { return l.bases[bucket] + l.part + "i" }

// bucket returns the key's bucket.
func (l *layout) bucket(key store.Key) int {
	crc := crc16After(crc16After(0, key.Cluster), "/")
	crc = crc16After(crc16After(crc, key.Namespace), "/")
	return int(crc16After(crc, key.Target) >> 8)
}

func (p place) record() string   { return p.base + "h:" + p.name }
func (p place) log() string      { return p.base + "l:" + p.name }
func (p place) kept() string     { return p.base + "c:" + p.name }
func (p place) deletion() string { return p.base + "d:" + p.name }
func (p place) index() string    { return p.base + "i" }

// member returns the key's member in the index; members sort bytewise as Key.Compare
// orders keys.
func (p place) member() string { return strings.ReplaceAll(p.name, "/", "\x00") }

// memberKey returns the key of a member; false if it is not a key's.
func memberKey(member string) (store.Key, bool) {
	parts := strings.SplitN(member, "\x00", 4)
	if len(parts) != 3 {
		return store.Key{}, false
	}
	return store.Key{Cluster: parts[0], Namespace: parts[1], Target: parts[2]}, true
}
