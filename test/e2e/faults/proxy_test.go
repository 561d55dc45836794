package faults

import (
	"bytes"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// toxiproxies is the server that all proxies belong to. Its HTTP side is not served:
// tests are in the same process.
var toxiproxies = toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())

// proxy is a toxiproxy before one Redis server.
type proxy struct {
	*toxiproxy.Proxy
	address string
}

// newProxy starts a proxy, which ends with the test.
func newProxy(t testing.TB, upstream string) *proxy {
	t.Helper()
	// It stays the proxy's while that is disabled.
	port, err := process.Reserve(1)
	fatal.If(t, err)
	t.Cleanup(port.Release)
	listen := port.Address(0)
	p := &proxy{toxiproxy.NewProxy(toxiproxies, t.Name()+" "+listen, listen, upstream), listen}
	fatal.If(t, p.Start())
	t.Cleanup(p.Stop)
	return p
}

// disable closes all connections and accepts no new ones.
func (p *proxy) disable() { p.Stop() }

// enable undoes disable.
func (p *proxy) enable(t testing.TB) {
	t.Helper()
	fatal.If(t, p.Start())
}

// attributes are a toxic's settings.
type attributes map[string]any

// add adds a toxic to all connections, present and future; upstream is towards Redis,
// downstream from there.
func (p *proxy) add(t testing.TB, kind, stream string, a attributes) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "stream": stream, "attributes": a})
	fatal.If(t, err)
	if _, err := p.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
		t.Fatalf("toxic %s: %v", text, err)
	}
}

// clear removes all toxics.
func (p *proxy) clear(t testing.TB) { p.Toxics.ResetToxics(t.Context()) }

// loss selects the replies from Redis that are lost together with their connection.
type loss struct {
	// prefix is the beginning of the reply's bytes.
	prefix string
	// times is how many are lost, the rest arrives.
	times int64
	lost  atomic.Int64
}

// lose loses replies from now on.
func (p *proxy) lose(t testing.TB, l *loss) {
	t.Helper()
	losses.Store(t.Name(), l)
	t.Cleanup(func() { losses.Delete(t.Name()) })
	p.add(t, "lose_reply", "downstream", attributes{"loss": t.Name()})
}

// swapped begins Redis' reply to a swap that happened.
const swapped = ":1\r\n"

var losses sync.Map // string → *loss

func init() { toxics.Register("lose_reply", new(loseReply)) }

// loseReply is the toxic that loses replies. It is known by name in losses, for
// toxics are made from JSON.
type loseReply struct {
	Loss string `json:"loss"`
}

// Pipe implements toxics.Toxic.
func (l *loseReply) Pipe(stub *toxics.ToxicStub) {
	known, _ := losses.Load(l.Loss)
	plan, _ := known.(*loss)
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if plan == nil || !bytes.HasPrefix(chunk.Data, []byte(plan.prefix)) || plan.lost.Add(1) > plan.times {
				stub.Output <- chunk
				continue
			}
			stub.Close()
			for range stub.Input { // until the other side has closed, too
			}
			return
		}
	}
}
