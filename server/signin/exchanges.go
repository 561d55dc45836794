package signin

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/server/bounded"
	"github.com/setpoint-dev/setpoint/server/gate"
)

const (
	// maxAtOnce is how many codes are exchanged at a time, and maxWaiting how many wait for that, at
	// most turnTimeout long.
	maxAtOnce, maxWaiting = 16, 256
	turnTimeout           = 10 * time.Second
	// maxUsed limits the remembered states of answered sign-ins, and maxRefused the addresses whose
	// exchanges failed; some 100 bytes each.
	maxUsed, maxRefused = 1 << 16, 1 << 12
	// refusedAge is how long an address waits with all others whose exchanges failed, and
	// refusedTime how long an exchange that fails takes at least.
	refusedAge  = time.Minute
	refusedTime = 250 * time.Millisecond
)

// errBusy means that too many codes wait to be exchanged.
var errBusy = errors.New("too many sign-ins at once")

// exchanges bound what the exchange of codes takes: anyone can start sign-ins, and answer them with
// codes that the issuer never gave. Addresses take turns, so that strangers who send many delay each
// other; those whose exchange failed take turns as if they were one: the issuer refused the code, or
// did not answer, which strangers may have caused.
type exchanges struct {
	turns *gate.Gate

	mu sync.Mutex
	// used are the states of answered sign-ins, and when they were. Guarded by mu.
	used *bounded.Map[string, time.Time]
	// refused are addresses, and when an exchange of theirs failed last.
	refused *bounded.Map[netip.Prefix, time.Time]
}

func newExchanges() *exchanges {
	return &exchanges{
		turns: gate.New(gate.Options{Bytes: 1, Readers: maxAtOnce, Waiting: maxWaiting}),
		used:  bounded.New[string, time.Time](maxUsed), refused: bounded.New[netip.Prefix, time.Time](maxRefused),
	}
}

// use reports whether a sign-in is answered for the first time.
func (e *exchanges) use(state string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at, used := e.used.Get(state); used && time.Since(at) < flowAge {
		return false
	}
	e.used.Put(state, time.Now())
	return true
}

// enter waits for the turn to exchange a code. The error is errBusy or the context's. leave is called
// with the result: after a failure it takes a moment.
func (e *exchanges) enter(r *http.Request) (leave func(failed bool), err error) {
	from := addressOf(r)
	caller := from.String()
	if at, has := e.refused.Get(from); has && time.Since(at) < refusedAge {
		caller = "refused"
	}
	ctx, cancel := context.WithTimeout(r.Context(), turnTimeout)
	defer cancel()
	pass := new(gate.Pass)
	if err := e.turns.Enter(ctx, pass, caller, true); err != nil {
		if r.Context().Err() == nil {
			err = errBusy
		}
		return nil, err
	}
	began := time.Now()
	return func(failed bool) {
		defer pass.Leave()
		if !failed {
			return
		}
		e.refused.Put(from, time.Now())
		select {
		case <-time.After(refusedTime - time.Since(began)):
		case <-r.Context().Done():
		}
	}, nil
}

// addressOf is where a request comes from: a network, if it is one that a single machine has.
func addressOf(r *http.Request) netip.Prefix {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	ip := from.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	network, _ := ip.Prefix(bits)
	return network
}
