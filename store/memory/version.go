package memory

import (
	"crypto/rand"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/store"
)

// version counts the versions that a store creates; none is used twice.
type version uint64

const (
	absent  version = 0 // version of a key without a record
	foreign version = math.MaxUint64
)

// versions creates versions. Their text has a random prefix, which makes them differ from
// those of other processes.
type versions struct {
	prefix string
	count  atomic.Uint64
}

func newVersions() *versions {
	var random [9]byte   // a multiple of three: base64 without padding
	rand.Read(random[:]) // never fails, see crypto/rand
	return &versions{prefix: base64.RawURLEncoding.EncodeToString(random[:])}
}

func (v *versions) next() version { return version(v.count.Add(1)) }

// write returns the version's text for callers, about 16 bytes long.
func (v *versions) write(n version) store.Version {
	if n == absent {
		return ""
	}
	buf := append(make([]byte, 0, 32), v.prefix...)
	return store.Version(strconv.AppendUint(buf, uint64(n), 36))
}

// read parses a version's text; it returns foreign for one that this store did not
// create.
func (v *versions) read(name store.Version) version {
	if name == "" {
		return absent
	}
	digits, ok := strings.CutPrefix(string(name), v.prefix)
	if !ok {
		return foreign
	}
	n, err := strconv.ParseUint(digits, 36, 64)
	var room [16]byte
	if err != nil || n == 0 || string(strconv.AppendUint(room[:0], n, 36)) != digits {
		return foreign // not in canonical form
	}
	return version(n)
}
