//go:build linux

// Package hostile does what no well-behaved client does: arbitrary HTTP/2 frames, and messages
// that are encoded already. It is for tests of servers.
package hostile

import (
	"bytes"
	"net"
	"slices"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Frames is an HTTP/2 connection that does as it likes.
type Frames struct {
	Conn    net.Conn
	Framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
	// Next is the id that the next stream gets.
	Next   uint32
	closed chan struct{} // by the server
}

// Dial connects and sends the preface. It reads and counts the answers: RST_STREAM and GOAWAY
// by their codes.
func Dial(address string, seen *Tally) (*Frames, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	f := &Frames{Conn: conn, Framer: http2.NewFramer(conn, conn), Next: 1, closed: make(chan struct{})}
	f.encoder = hpack.NewEncoder(&f.block)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, err
	}
	if err := f.Framer.WriteSettings(); err != nil {
		return nil, err
	}
	f.Framer.SetMaxReadFrameSize(1 << 20)
	go f.read(seen)
	return f, nil
}

func (f *Frames) read(seen *Tally) {
	defer close(f.closed)
	decoder := hpack.NewDecoder(4096, func(field hpack.HeaderField) {
		if field.Name == "grpc-status" {
			seen.Add("grpc-status " + field.Value)
		}
	})
	for {
		frame, err := f.Framer.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			seen.Add("RST_STREAM " + frame.ErrCode.String())
		case *http2.GoAwayFrame:
			seen.Add("GOAWAY " + frame.ErrCode.String())
		case *http2.HeadersFrame:
			_, _ = decoder.Write(frame.HeaderBlockFragment())
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				seen.Add("connected")
			}
		}
	}
}

// Gone reports whether the server has closed the connection.
func (f *Frames) Gone() bool {
	select {
	case <-f.closed:
		return true
	default:
		return false
	}
}

// Headers encodes the headers of a call, with additional names and values.
func (f *Frames) Headers(method string, more ...string) []byte {
	f.block.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "setpoint", "content-type", "application/grpc", "te", "trailers"}, more...)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = f.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return slices.Clone(f.block.Bytes())
}

// Begin begins a call, which has a body that does not come.
func (f *Frames) Begin(method string, more ...string) (stream uint32, err error) {
	stream, f.Next = f.Next, f.Next+2
	return stream, f.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.Headers(method, more...), EndHeaders: true})
}
