package memory

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/store"
)

// versions gives out versions that never come back: a random prefix keeps those
// of other processes apart, a counter those of this one.
type versions struct {
	prefix string
	count  atomic.Uint64
}

func newVersions() *versions {
	var random [9]byte   // no padding in base64, and beyond any coincidence
	rand.Read(random[:]) // never fails, see crypto/rand
	return &versions{prefix: base64.RawURLEncoding.EncodeToString(random[:])}
}

// next returns a new version, about 16 bytes long.
func (v *versions) next() store.Version {
	buf := append(make([]byte, 0, 32), v.prefix...)
	return store.Version(strconv.AppendUint(buf, v.count.Add(1), 36))
}
