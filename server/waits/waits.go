// Package waits gives back what others need while a call waits: for a third party, or for its turn.
//
//	err := waits.For(ctx, waits.Fetch, func() error { … }) // nothing is held meanwhile
//
// A call holds two things that others need. Its ticket counts it among the running calls, which are
// few under overload, and over REST it has one of the places for transcoding messages. It keeps its
// unit in flight, which bounds the calls that wait. What a call holds is in its context, so whatever
// waits needs to know nothing about it.
//
// Streams hold neither. Calls of the store do not come here: all calls wait for the store, so none
// would gain by it. Nor does waiting for a call's own message, where even the unit in flight is given
// back: see limit.Ticket.Wait.
package waits

import (
	"context"

	"github.com/setpoint-dev/setpoint/server/limit"
)

// Kind is what a call waits for. A test of the server has all kinds, and checks for each that calls
// that wait are in nobody's way.
type Kind uint8

const (
	// Fetch is a fetch of metrics from a source.
	Fetch Kind = iota + 1
	// Simulation is the turn of a simulation.
	Simulation
	// Large is memory to read a large message, or to decode a large observation.
	Large
	// List is the turn to read records for an answer, or to compute a long outlook.
	List
	// Translation is a place to transcode a message of REST.
	Translation
	// Issuer is an answer of an issuer of tokens, after the call's message was read.
	Issuer

	kinds
)

var names = [kinds]string{
	Fetch: "fetch", Simulation: "simulation", Large: "large", List: "list", Translation: "translation", Issuer: "issuer",
}

// Kinds returns all kinds, in order.
func Kinds() []Kind {
	all := make([]Kind, 0, kinds-1)
	for k := Fetch; k < kinds; k++ {
		all = append(all, k)
	}
	return all
}

// String returns the kind's name.
func (k Kind) String() string { return names[k] }

// Place is what a call holds besides its ticket. It may be used concurrently.
type Place interface {
	// GiveBack gives the place to others.
	GiveBack()
	// TakeAgain waits for a place after GiveBack, at most until the context ends: then the call
	// goes on without.
	TakeAgain(ctx context.Context)
}

type placeKey struct{}

// WithPlace returns the context of a call that holds a place.
func WithPlace(ctx context.Context, p Place) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

// For calls wait, and meanwhile gives back what the call holds. The error is that of wait. It must be
// called from the call's goroutine.
func For(ctx context.Context, kind Kind, wait func() error) error {
	defer Begin(ctx, kind)()
	return wait()
}

// Begin gives back what the call holds until end is called.
func Begin(ctx context.Context, _ Kind) (end func()) {
	ticket := limit.TicketOf(ctx)
	place, _ := ctx.Value(placeKey{}).(Place)
	ticket.Pause()
	if place != nil {
		place.GiveBack()
	}
	return func() {
		if place != nil {
			place.TakeAgain(ctx)
		}
		ticket.Resume()
	}
}

// Release gives back what the call holds for good, as for a stream, which mostly waits.
func Release(ctx context.Context) {
	if ticket := limit.TicketOf(ctx); ticket != nil {
		ticket.Release()
	}
	if place, ok := ctx.Value(placeKey{}).(Place); ok {
		place.GiveBack()
	}
}
