package redis

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/setpoint-dev/setpoint/store"
)

const (
	// recordFormat is the first byte of a record. Another version of this package
	// writes another format.
	recordFormat = 1
	// versionLength is the length of a version: the format and 8 random bytes.
	versionLength = 9
)

// newVersion returns a version that, with overwhelming probability, no other swap of
// the same key has chosen.
func newVersion() (v [versionLength]byte) {
	v[0] = recordFormat
	// Seeded by the operating system; see math/rand/v2.
	binary.BigEndian.PutUint64(v[1:], rand.Uint64())
	return v
}

// decodeRecord parses a stored record. The value shares no memory with data.
func decodeRecord(raw string) (store.Record, error) {
	switch {
	case raw == "" || raw[0] != recordFormat && len(raw) < versionLength:
		return store.Record{}, fmt.Errorf("%w: %d bytes", store.ErrUnreadable, len(raw))
	case raw[0] != recordFormat:
		return store.Record{}, fmt.Errorf("%w: format %d, this version reads %d", store.ErrUnreadable, raw[0], recordFormat)
	case len(raw) < versionLength:
		return store.Record{}, fmt.Errorf("%w: %d bytes", store.ErrUnreadable, len(raw))
	}
	return store.Record{Version: store.Version(raw[:versionLength]), Value: []byte(raw[versionLength:])}, nil
}
