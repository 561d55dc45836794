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

// version counts the versions that a store gives out: they never come back.
type version uint64

const (
	absent  version = 0 // of a key that has no record
	foreign version = math.MaxUint64
)

// versions gives out versions, which are written with a random prefix that keeps those of
// other processes apart.
type versions struct {
	prefix string
	count  atomic.Uint64
}

func newVersions() *versions {
	var random [9]byte   // no padding in base64, and beyond any coincidence
	rand.Read(random[:]) // never fails, see crypto/rand
	return &versions{prefix: base64.RawURLEncoding.EncodeToString(random[:])}
}

func (v *versions) next() version { return version(v.count.Add(1)) }

// write returns how callers know a version, about 16 bytes long.
func (v *versions) write(n version) store.Version {
	if n == absent {
		return ""
	}
	buf := append(make([]byte, 0, 32), v.prefix...)
	return store.Version(strconv.AppendUint(buf, uint64(n), 36))
}

// read returns the version that a caller names, foreign if the store did not give it.
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
		return foreign // written in another way than its own
	}
	return version(n)
}
