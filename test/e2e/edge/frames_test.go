//go:build linux

package edge

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is an HTTP/2 connection that does as it likes.
type frames struct {
	conn    net.Conn
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
	next    uint32
	closed  chan struct{} // by the server
}

// dialFrames connects and says the preface. What comes is read and counted: RST_STREAM
// and GOAWAY by their codes.
func dialFrames(address string, seen *tally) (*frames, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	f := &frames{conn: conn, framer: http2.NewFramer(conn, conn), next: 1, closed: make(chan struct{})}
	f.encoder = hpack.NewEncoder(&f.block)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, err
	}
	if err := f.framer.WriteSettings(); err != nil {
		return nil, err
	}
	f.framer.SetMaxReadFrameSize(1 << 20)
	go f.read(seen)
	return f, nil
}

func (f *frames) read(seen *tally) {
	defer close(f.closed)
	decoder := hpack.NewDecoder(4096, func(field hpack.HeaderField) {
		if field.Name == "grpc-status" {
			seen.add("grpc-status " + field.Value)
		}
	})
	for {
		frame, err := f.framer.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			seen.add("RST_STREAM " + frame.ErrCode.String())
		case *http2.GoAwayFrame:
			seen.add("GOAWAY " + frame.ErrCode.String())
		case *http2.HeadersFrame:
			_, _ = decoder.Write(frame.HeaderBlockFragment())
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				seen.add("connected")
			}
		}
	}
}

// gone reports whether the server has closed the connection.
func (f *frames) gone() bool {
	select {
	case <-f.closed:
		return true
	default:
		return false
	}
}

// headers encodes those of a call, with more names and values.
func (f *frames) headers(method string, more ...string) []byte {
	f.block.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "setpoint", "content-type", "application/grpc", "te", "trailers"}, more...)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = f.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return slices.Clone(f.block.Bytes())
}

// begin begins a call, which has a body that does not come.
func (f *frames) begin(method string, more ...string) (stream uint32, err error) {
	stream, f.next = f.next, f.next+2
	return stream, f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.headers(method, more...), EndHeaders: true})
}

// tally counts what an attack met.
type tally struct {
	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

func newTally() *tally { return &tally{counts: make(map[string]int)} }

func (y *tally) add(what string) { y.addAll(what, 1) }

func (y *tally) addAll(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts[what] += n
}

func (y *tally) of(what string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[what]
}

func (y *tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(y.counts)) {
		all = append(all, fmt.Sprintf("%d %s", y.counts[what], what))
	}
	return strings.Join(all, ", ")
}

// paced calls f so often a second, until ctx is done. What is late is made up for in
// small lots.
func paced(ctx context.Context, perSecond float64, f func()) {
	began, n := time.Now(), 0.0
	for ctx.Err() == nil {
		if ahead := began.Add(time.Duration(n / perSecond * float64(time.Second))); time.Until(ahead) > 0 {
			select {
			case <-time.After(time.Until(ahead)):
			case <-ctx.Done():
				return
			}
		}
		n++
		f()
	}
}
