package connections_test

import (
	"net"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/connections"
)

// outside is the source of a test listener's connections: pipes, because only closing is
// tested.
type outside struct{ conns chan net.Conn }

func (o outside) Accept() (net.Conn, error) {
	if conn, ok := <-o.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (o outside) Close() error   { return nil }
func (o outside) Addr() net.Addr { return &net.TCPAddr{} }

// remote is the server's end of a connection that notes that it was closed.
type remote struct {
	net.Conn
	closed bool
}

func (r *remote) Close() error                { r.closed = true; return nil }
func (r *remote) RemoteAddr() net.Addr        { return &net.TCPAddr{} }
func (r *remote) Read(b []byte) (int, error)  { return 1, nil }
func (r *remote) Write(b []byte) (int, error) { return len(b), nil }

// accepted are connections that a set has taken.
type accepted struct {
	raw   []*remote
	conns []*connections.Conn
}

// closed lists which were closed.
func (a *accepted) closed() (which []int) {
	for i, r := range a.raw {
		if r.closed {
			which = append(which, i)
		}
	}
	return which
}

func (a *accepted) expect(t *testing.T, what string, want ...int) {
	t.Helper()
	if got := a.closed(); !slices.Equal(got, want) {
		t.Errorf("%s: closed are %v, want %v", what, got, want)
	}
}

func accept(t *testing.T, set *connections.Set, all *accepted, n int) {
	t.Helper()
	o := outside{make(chan net.Conn, 1)}
	l := set.Listen(o)
	for range n {
		r := &remote{}
		all.raw = append(all.raw, r)
		o.conns <- r
		conn, err := l.Accept()
		fatal.If(t, err)
		all.conns = append(all.conns, connections.Of(conn.RemoteAddr()))
	}
}

func TestTheOldestUnusedConnectionMakesWay(t *testing.T) {
	t.Parallel()
	set := connections.New(connections.Options{Most: 8})
	var all accepted
	accept(t, set, &all, 8)
	all.conns[0].Know()
	all.conns[1].Begin() // a call is in flight on it
	accept(t, set, &all, 1)
	all.expect(t, "the first is known, the second in use", 2)
	accept(t, set, &all, 100)
	if slices.Contains(all.closed(), 0) || set.Open() != 8 || set.Closed() != 101 {
		t.Errorf("of 109 are %v closed, %d open, %d counted as closed", all.closed(), set.Open(), set.Closed())
	}
}

func TestAKnownOneThatIsIdleMakesWayWhereAlmostAllAreKnown(t *testing.T) {
	t.Parallel()
	set := connections.New(connections.Options{Most: 8})
	var all accepted
	accept(t, set, &all, 8)
	for _, c := range all.conns {
		c.Know()
	}
	all.conns[0].Begin()
	_, _ = all.conns[1].Read(make([]byte, 1))
	accept(t, set, &all, 1)
	all.expect(t, "one is in use and one was", 2)
	accept(t, set, &all, 1)
	all.expect(t, "there is place for two new ones", 2, 3)
	accept(t, set, &all, 1)
	all.expect(t, "a quarter of them is not known", 2, 3, 8)
}

func TestAllAreInUse(t *testing.T) {
	t.Parallel()
	set := connections.New(connections.Options{Most: 2})
	var all accepted
	accept(t, set, &all, 2)
	for _, c := range all.conns {
		c.Know()
		c.Begin()
	}
	o := outside{make(chan net.Conn, 1)}
	turned := &remote{}
	o.conns <- turned
	close(o.conns)
	if conn, err := set.Listen(o).Accept(); err == nil {
		t.Errorf("took %v though all are in use", conn)
	}
	if !turned.closed {
		t.Error("the one that came while all were in use stays open")
	}
	all.expect(t, "those in use stay")
}

func TestExemptCalls(t *testing.T) {
	t.Parallel()
	set := connections.New(connections.Options{Exempt: 8, ExemptEach: 4})
	var all accepted
	accept(t, set, &all, 4)
	all.conns[0].Know()
	begin := func(conn, n int) {
		t.Helper()
		for range n {
			if !all.conns[conn].BeginExempt() {
				t.Fatalf("a call of connection %d was refused", conn)
			}
		}
	}
	begin(0, 4)
	if all.conns[0].BeginExempt() {
		t.Fatal("a fifth call of a connection was let in")
	}
	all.conns[0].EndExempt()
	begin(0, 1)
	begin(1, 4)
	all.expect(t, "there is room")
	begin(2, 1)
	all.expect(t, "the oldest that is not known makes way", 1)
	all.conns[1].EndExempt() // as its calls end
	_ = all.conns[1].Close()
	begin(2, 3)
	all.expect(t, "its calls count no more", 1)
	all.conns[2].Know()
	begin(3, 1)
	all.expect(t, "all are known", 0, 1)
	for range 4 {
		all.conns[2].EndExempt()
	}
	begin(3, 3)
	begin(2, 4)
	all.expect(t, "what ended counts no more", 0, 1)
}

func TestOfOthers(t *testing.T) {
	t.Parallel()
	if c := connections.Of(&net.TCPAddr{}); c != nil {
		t.Error("a connection of somebody else is taken for one of the set's")
	}
	var none *connections.Conn
	none.Know()
	none.Begin()
	none.End()
	none.EndExempt()
	if !none.BeginExempt() {
		t.Error("calls within the process are refused")
	}
}
