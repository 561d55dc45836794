package unfinished_test

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// bodies begins some, which note when they are cut.
func bodies(m *unfinished.Meter, n int) (all []*unfinished.Holder, cut func() []int) {
	var mu sync.Mutex
	var gone []int
	for i := range n {
		all = append(all, m.Begin(func() {
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, i)
		}))
	}
	return all, func() []int {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(gone)
	}
}

func TestWhoHoldsTheMostMakesWay(t *testing.T) {
	t.Parallel()
	m := unfinished.New(unfinished.Options{Bytes: 1000 << 10})
	all, cut := bodies(m, 4)
	all[0].Add(300 << 10)
	all[1].Add(400 << 10)
	all[2].Add(300 << 10)
	if got := cut(); len(got) != 0 || m.Bytes() != 1000<<10 {
		t.Fatalf("at the bound %v were cut, %d bytes", got, m.Bytes())
	}
	all[3].Add(10 << 10) // too little to be counted
	if got := cut(); len(got) != 0 {
		t.Fatalf("for little %v were cut", got)
	}
	all[3].Add(110 << 10)
	if got := cut(); !slices.Equal(got, []int{1}) || m.Bytes() != 720<<10 || m.Cut() != 1 {
		t.Fatalf("beyond the bound %v were cut, %d bytes are left", got, m.Bytes())
	}
	all[1].Add(900 << 10) // it is gone and counts no more
	if got := cut(); !slices.Equal(got, []int{1}) || m.Bytes() != 720<<10 {
		t.Fatalf("by one that was cut %v were, %d bytes", got, m.Bytes())
	}
	for _, b := range all {
		b.End()
	}
	if m.Bytes() != 0 {
		t.Errorf("%d bytes after all ended", m.Bytes())
	}
}

func TestFinishedMessagesCountNoMore(t *testing.T) {
	t.Parallel()
	m := unfinished.New(unfinished.Options{Bytes: 200 << 10})
	all, cut := bodies(m, 1)
	for range 100 {
		all[0].Add(150 << 10)
		all[0].Finished(151 << 10)
	}
	if got := cut(); len(got) != 0 || m.Bytes() != 0 {
		t.Errorf("%v were cut, %d bytes are left", got, m.Bytes())
	}
}

func TestTheOldestMakesWay(t *testing.T) {
	t.Parallel()
	m := unfinished.New(unfinished.Options{Bytes: 1 << 20, Bodies: 3})
	all, cut := bodies(m, 3)
	all[1].End()
	more, _ := bodies(m, 1)
	if got := cut(); len(got) != 0 {
		t.Fatalf("%v were cut though one had ended", got)
	}
	last, _ := bodies(m, 1)
	if got := cut(); !slices.Equal(got, []int{0}) {
		t.Fatalf("%v were cut, want the first", got)
	}
	all[0].End() // as its reader does when it was cut
	next, _ := bodies(m, 1)
	if got := cut(); !slices.Equal(got, []int{0, 2}) {
		t.Fatalf("%v were cut, want the first and the third", got)
	}
	for _, b := range slices.Concat(all, more, last, next) {
		b.End()
	}
}

// preface is the first data of a client.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frame is a frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b := append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, binary.BigEndian.AppendUint32(nil, stream)...)
	return append(b, payload...)
}

// message is a gRPC message of that size, of which come bytes arrive.
func message(size, come int) []byte {
	b := append([]byte{0}, binary.BigEndian.AppendUint32(nil, uint32(size))...)
	return append(b, make([]byte, come)...)
}

func data(stream uint32, last byte, message []byte) (frames []byte) {
	for len(message) > 16<<10 {
		frames = append(frames, frame(0, 0, stream, message[:16<<10])...)
		message = message[16<<10:]
	}
	return append(frames, frame(0, last, stream, message)...)
}

func headers(stream uint32) []byte { return frame(1, 4, stream, []byte("abc")) }

// peer is a connection and the server's end of it.
type peer struct {
	t               *testing.T
	outside, inside net.Conn // inside reads and writes frames
	raw             *unfinished.Conn
	pieces          int // of how many bytes it is read
}

func newPeer(t *testing.T, m *unfinished.Meter, pieces int) *peer {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer plain.Close()
	listener := m.Listen(plain)
	p := &peer{t: t, pieces: pieces}
	p.outside, err = net.Dial("tcp", plain.Addr().String())
	fatal.If(t, err)
	inside, err := listener.Accept()
	fatal.If(t, err)
	p.raw = unfinished.ConnOf(inside.RemoteAddr())
	p.inside = p.raw.Frames(inside)
	t.Cleanup(func() { _, _ = p.inside.Close(), p.outside.Close() })
	p.send([]byte(preface))
	return p
}

// send has the server read something.
func (p *peer) send(b []byte) {
	p.t.Helper()
	go func() { _, _ = p.outside.Write(b) }()
	into := make([]byte, p.pieces)
	for left := len(b); left > 0; {
		n, err := p.inside.Read(into[:min(left, p.pieces)])
		if left -= n; err != nil && left > 0 {
			p.t.Fatal(err)
		}
	}
}

// answer has the server write something.
func (p *peer) answer(b []byte) {
	p.t.Helper()
	for len(b) > 0 {
		n := min(len(b), p.pieces)
		if _, err := p.inside.Write(b[:n]); err != nil {
			p.t.Fatal(err)
		}
		b = b[n:]
	}
}

func (p *peer) expect(what string, held int64) {
	p.t.Helper()
	if got := p.raw.Held(); got != held {
		p.t.Errorf("%s: %d bytes are held, want %d", what, got, held)
	}
}

// What is held of each stream is counted, whatever comes on others of the connection, and
// however frames are cut.
func TestWhatStreamsHold(t *testing.T) {
	t.Parallel()
	for _, pieces := range []int{1 << 20, 1000, 7, 1} {
		m := unfinished.New(unfinished.Options{Bytes: 1 << 30})
		p := newPeer(t, m, pieces)
		p.answer(frame(4, 0, 0, []byte{0, 4, 0, 1, 0, 0})) // windows of 64 KiB
		p.send(headers(1))
		p.send(data(1, 0, message(1<<20, 50_000)))
		p.expect("a message of which 50,000 bytes came", 50_005)
		for stream := uint32(3); stream < 40; stream += 2 {
			p.send(headers(stream))
			p.send(data(stream, 1, message(1000, 1000)))
			p.answer(frame(1, 4, stream, []byte("abc")))
			p.answer(frame(0, 0, stream, message(3000, 3000)))
			p.answer(frame(1, 5, stream, []byte("abc")))
		}
		p.expect("small calls on the same connection", 50_005)
		p.send(headers(41))
		p.send(frame(0, 8, 41, append(append([]byte{9}, message(100, 50)...), make([]byte, 9)...))) // padded
		p.expect("a second one", 50_060)
		p.send(frame(0, 0, 41, make([]byte, 50)))
		p.expect("it is complete", 50_005)
		p.answer(frame(3, 0, 1, []byte{0, 0, 0, 8}))
		p.expect("the server has reset the first", 0)
		p.send(data(1, 0, make([]byte, 10_000)))
		p.expect("what comes on it later", 0)
		p.send(headers(43))
		p.send(data(43, 0, message(1<<20, 20_000)))
		p.send(frame(3, 0, 43, []byte{0, 0, 0, 8}))
		p.expect("the caller has reset one", 0)
		p.send(data(51, 0, message(1<<20, 20_000)))
		p.expect("a stream that was never opened", 0)
		if pieces == 1 {
			continue // the rest takes long
		}
		p.send(headers(53))
		for range 60 {
			p.send(data(53, 0, message(995, 995)))
		}
		p.expect("60 messages that the server does not take", 60_000-16<<10)
		p.answer(frame(8, 0, 53, []byte{0, 0, 0xea, 0x60}))
		p.expect("it has taken them", 0)
		_ = p.inside.Close()
		if m.Bytes() != 0 {
			t.Errorf("%d bytes after all ended", m.Bytes())
		}
	}
}

// A connection that withholds the rest of much is closed, one that sends much and
// finishes it goes on, and so does one that is small.
func TestConnections(t *testing.T) {
	t.Parallel()
	m := unfinished.New(unfinished.Options{Bytes: 1 << 20})
	honest, bad := newPeer(t, m, 1<<20), newPeer(t, m, 1<<20)
	honest.send(headers(1))
	for range 20 {
		honest.send(data(1, 0, message(300<<10, 300<<10)))
		honest.answer(frame(8, 0, 1, []byte{0, 4, 0xb0, 5}))
	}
	bad.send(headers(1))
	bad.send(data(1, 0, message(1<<20, 900<<10)))
	honest.send(data(1, 0, message(300<<10, 200<<10)))
	_ = bad.outside.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := bad.outside.Read(make([]byte, 1)); err == nil || m.Cut() != 1 {
		t.Errorf("the connection that holds the most was not closed: %v, %d cut", err, m.Cut())
	}
	honest.send(data(1, 0, make([]byte, 100<<10)))
	if unfinished.ConnOf(bad.outside.RemoteAddr()) != nil {
		t.Error("a connection of somebody else is taken for one of the meter's")
	}
	if address := honest.inside.RemoteAddr(); address.String() != honest.outside.LocalAddr().String() || address.Network() != "tcp" {
		t.Errorf("the address %v does not read as it should", address)
	}
}

// Of the connections with unread responses, the one with the most is closed.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	m := unfinished.New(unfinished.Options{Bytes: 1 << 20, Answers: 1 << 20})
	a, b := newPeer(t, m, 1<<20), newPeer(t, m, 1<<20)
	a.raw.Answers().Begin(600 << 10)
	b.raw.Answers().Begin(400 << 10)
	for range 100 {
		b.raw.Answers().Begin(20 << 10)
		b.raw.Answers().End(20 << 10)
	}
	if n := m.Answers().Cut(); n != 0 || a.raw.Unsent() != 600<<10 {
		t.Fatalf("%d were cut, the first has %d bytes", n, a.raw.Unsent())
	}
	b.raw.Answers().Begin(100 << 10)
	_ = a.outside.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := a.outside.Read(make([]byte, 1)); err == nil || m.Answers().Cut() != 1 || m.Cut() != 0 {
		t.Errorf("the connection that has the most was not closed: %v", err)
	}
}

// A connection that starts streams without end, which no server would accept, is closed.
func TestStreamsWithoutEnd(t *testing.T) {
	t.Parallel()
	m := unfinished.New(unfinished.Options{Bytes: 1 << 20, Streams: 100})
	p := newPeer(t, m, 1<<20)
	for stream := uint32(1); stream < 2*101; stream += 2 {
		p.send(headers(stream))
	}
	_ = p.outside.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := p.outside.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it is still open: %v", err)
	}
}

// A response larger than the limit is sent, if no other connection has many.
func TestALargeAnswer(t *testing.T) {
	t.Parallel()
	m := unfinished.New(unfinished.Options{Bytes: 1 << 20, Answers: 1 << 20})
	cut := 0
	large := m.Answers().Begin(func() { cut++ })
	large.Add(5 << 20)
	if cut != 0 {
		t.Error("a large answer was cut though it is the only one")
	}
	other := m.Answers().Begin(func() {})
	other.Add(1 << 20)
	if cut != 1 {
		t.Error("a large answer was not cut though others need memory")
	}
	large.End()
	other.End()
}
