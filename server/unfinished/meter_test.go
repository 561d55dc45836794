package unfinished_test

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

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
	all[3].Add(60 << 10) // too little to be counted
	if got := cut(); len(got) != 0 {
		t.Fatalf("for little %v were cut", got)
	}
	all[3].Add(60 << 10)
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

// A connection that withholds the rest of much is closed, one that sends much and
// finishes it goes on.
func TestConnections(t *testing.T) {
	t.Parallel()
	m := unfinished.New(unfinished.Options{Bytes: 1 << 20})
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := m.Listen(plain)
	defer listener.Close()
	dial := func() (outside, inside net.Conn) {
		outside, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = outside.Close() })
		if inside, err = listener.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = inside.Close() })
		return outside, inside
	}
	send := func(outside, inside net.Conn, bytes int) error {
		go func() { _, _ = outside.Write(make([]byte, bytes)) }()
		_, err := io.ReadFull(inside, make([]byte, bytes))
		return err
	}
	honestOutside, honest := dial()
	for range 20 {
		if err := send(honestOutside, honest, 300<<10); err != nil {
			t.Fatal(err)
		}
		unfinished.ConnOf(honest.RemoteAddr()).Finished(300 << 10)
	}
	badOutside, bad := dial()
	if err := send(badOutside, bad, 900<<10); err != nil {
		t.Fatal(err)
	}
	if err := send(honestOutside, honest, 300<<10); err != nil {
		t.Fatal(err)
	}
	_ = badOutside.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := badOutside.Read(make([]byte, 1)); err == nil || m.Cut() != 1 {
		t.Errorf("the connection that holds the most was not closed: %v, %d cut", err, m.Cut())
	}
	unfinished.ConnOf(honest.RemoteAddr()).Finished(300 << 10)
	if err := send(honestOutside, honest, 1000); err != nil {
		t.Errorf("the other one was closed, too: %v", err)
	}
	if unfinished.ConnOf(badOutside.RemoteAddr()) != nil {
		t.Error("a connection of somebody else is taken for one of the meter's")
	}
	if honest.RemoteAddr().String() != honestOutside.LocalAddr().String() || honest.RemoteAddr().Network() != "tcp" {
		t.Errorf("the address %v does not read as it should", honest.RemoteAddr())
	}
	_, _ = bad.Close(), honest.Close()
	if m.Bytes() != 0 {
		t.Errorf("%d bytes after all ended", m.Bytes())
	}
}

func BenchmarkConn(b *testing.B) {
	m := unfinished.New(unfinished.Options{Bytes: 1 << 20})
	h := m.Begin(func() {})
	defer h.End()
	for b.Loop() {
		h.Add(1000)
		h.Finished(1000)
	}
}
