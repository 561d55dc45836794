package decision

import (
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/store"
)

// decoded caches the history on which the jobs of one target in a batch decide, so that a job
// need not decode what the previous one decoded or stored: a history may be a hundred times
// as large as a request. It is read only, as the recommender treats it. A nil one caches
// nothing.
type decoded struct {
	known   bool
	version store.Version
	history recommender.History
	// next is the history of the next swap.
	next recommender.History
}

// of returns the history of an existing record. A cached one has its own memory, any other uses the
// room.
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

// storing sets the history of the next swap.
func (d *decoded) storing(next *recommender.History) {
	if d != nil {
		d.next = *next
	}
}

// stored records that the swap succeeded, with this version.
func (d *decoded) stored(version store.Version) {
	if d == nil {
		return
	}
	history, err := encoding.AsStored(&d.next)
	d.known, d.version, d.history = err == nil, version, history
}
