package decision

import (
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/store"
)

// decoded is the history that the jobs of one target in a batch decide on, so that none need
// decode what the one before it decoded, or left: a history may be a hundred times as long as
// a request. It is read only, as the recommender takes it. A nil one remembers nothing.
type decoded struct {
	known   bool
	version store.Version
	history recommender.History
	// next is what the next swap stores.
	next recommender.History
}

// of returns the history of a record that exists. One that is remembered has memory of its own, any
// other lies in the room.
func (d *decoded) of(record *store.Record, room *encoding.Room) (recommender.History, error) {
	if d == nil {
		return room.DecodeHistory(record.Value)
	}
	if d.known && d.version == record.Version {
		return d.history, nil
	}
	history, err := encoding.DecodeHistory(record.Value)
	d.known, d.version, d.history = err == nil, record.Version, history
	return history, err
}

// storing notes what the next swap stores.
func (d *decoded) storing(next *recommender.History) {
	if d != nil {
		d.next = *next
	}
}

// stored notes that it was stored, and that its version is this one.
func (d *decoded) stored(version store.Version) {
	if d == nil {
		return
	}
	history, err := encoding.AsStored(&d.next)
	d.known, d.version, d.history = err == nil, version, history
}
