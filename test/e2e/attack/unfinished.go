//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// unfinishedAttacks start requests without finishing them, or don't read answers.
func unfinishedAttacks() []*attack {
	held := bounds{memory: 330, processor: 20 * time.Second, worst: 5 * time.Second, limit: 15 * time.Second}
	// Explaining makes garbage faster than it is collected, up to the collector's limit of
	// three quarters of GOMEMLIMIT. The live part was 103 MiB at the peak.
	made := held
	made.memory = 512
	return []*attack{
		{name: "withheld", item: "4", about: "60 connections of messages of 16 MiB, the last of which does not come", steps: []step{
			{name: "grpc", short: true, bounds: held, run: withheld(recommendMethod, 60, 1, 15<<20, false)},
			{name: "grpc-with-calls", short: true, bounds: held, run: withheld(recommendMethod, 60, 1, 15<<20, true)},
			{name: "stream-with-calls", short: true, bounds: held, run: withheld(streamMethod, 60, 1, 15<<20, true)},
			{name: "batch-with-calls", bounds: held, run: withheld(batchMethod, 60, 1, 15<<20, true)},
			{name: "many-streams-with-calls", bounds: held, run: withheld(streamMethod, 20, 100, 512<<10, true)},
			{name: "rest", bounds: held, run: connections(60, onREST, unfinishedBody(), "", 4*time.Second)},
		}},
		{name: "slow-bodies", item: "4", about: "5,000 REST calls, of which a byte a second comes", steps: []step{
			{name: "rest", bounds: held, run: slowBodies(5000)},
			{name: "few", short: true, bounds: held, run: slowBodies(500)},
		}},
		{name: "unread", item: "4", about: "answers of some hundred kB that nobody reads, on many connections", steps: []step{
			{name: "grpc", short: true, bounds: made, run: unread(50, 100)},
			{name: "stream", short: true, bounds: made, run: unreadStreams(50, 60)},
			{name: "rest", short: true, bounds: made, run: unreadREST(300)},
		}},
	}
}

// slowBodies are REST calls of whose bodies a byte a second comes.
func slowBodies(n int) func(context.Context, *scene) error {
	return connections(n, onREST, "POST /v1/"+hostileTarget+":recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{", " ", 5*time.Second)
}

// unfinishedBody is a REST call with most of the largest body.
func unfinishedBody() string {
	return fmt.Sprintf("POST /v1/%s:recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{%s", hostileTarget, 16<<20, strings.Repeat(" ", 15<<20))
}

// withheld begins messages on streams of connections and stops short of their end; small
// calls on the same connections may go on meanwhile.
func withheld(method string, conns, each, size int, calls bool) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
		defer cancel()
		clear := &http.Transport{Protocols: &http.Protocols{}}
		clear.Protocols.SetUnencryptedHTTP2(true)
		part := make([]byte, 5+size)
		binary.BigEndian.PutUint32(part[1:], 16<<20-100)
		small := framed(base().wire)
		var running sync.WaitGroup
		for range conns {
			running.Go(func() {
				talk, err := clear.NewClientConn(ctx, "http", s.grpc)
				if err != nil {
					s.met.Add("not connected")
					return
				}
				defer talk.Close()
				for range each {
					running.Go(func() {
						_, _ = exchange(ctx, talk, method, io.MultiReader(bytes.NewReader(part), &silent{ctx, nil}))
						if ctx.Err() == nil {
							s.met.Add("cut off")
						}
					})
					s.sent(1, len(part))
				}
				for calls && ctx.Err() == nil {
					short, stop := context.WithTimeout(ctx, 2*time.Second)
					status, err := exchange(short, talk, recommendMethod, bytes.NewReader(small))
					stop()
					if err != nil && ctx.Err() == nil {
						s.met.Add("connection closed")
						return
					}
					s.sent(1, len(small))
					s.met.Add("small calls " + status)
					pause(ctx, 20*time.Millisecond)
				}
				<-ctx.Done()
			})
		}
		running.Wait()
		return nil
	}
}

// silent is the rest of a body that does not come.
type silent struct {
	ctx context.Context
	_   []byte
}

// Read implements io.Reader.
func (s *silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// framed is a message as gRPC frames it.
func framed(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...)
}

// exchange makes a gRPC call with that body, and returns its status.
func exchange(ctx context.Context, talk *http.ClientConn, method string, body io.Reader) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://setpoint"+method, body)
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	response, err := talk.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return "", err
	}
	if status := response.Trailer.Get("Grpc-Status"); status != "" {
		return status, nil
	}
	return response.Header.Get("Grpc-Status"), nil
}

// With small windows, unread data stays at the service.
func (s *site) dialNarrow() (*grpc.ClientConn, error) {
	return s.dial(grpc.WithInitialWindowSize(1<<16), grpc.WithInitialConnWindowSize(1<<16))
}

// unread makes calls without reading their answers.
func unread(conns, each int) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
		defer cancel()
		data := explained(2000, 10).wire
		for range conns {
			conn, err := s.dialNarrow()
			if err != nil {
				return err
			}
			s.cleanup(func() { _ = conn.Close() })
			go func() {
				for range each {
					stream, err := conn.NewStream(ctx, bothWays, recommendMethod, grpc.ForceCodec(hostile.RawCodec{}))
					if err != nil || stream.SendMsg(&hostile.Raw{Data: data}) != nil || stream.CloseSend() != nil {
						s.met.Add("refused")
						continue
					}
					s.sent(1, len(data))
				}
			}()
		}
		<-ctx.Done()
		return nil
	}
}

// unreadStreams does the same with messages of streams.
func unreadStreams(conns, each int) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
		defer cancel()
		data := explained(2000, 10).wire
		for range conns {
			conn, err := s.dialNarrow()
			if err != nil {
				return err
			}
			s.cleanup(func() { _ = conn.Close() })
			for range 4 {
				stream, err := conn.NewStream(ctx, bothWays, streamMethod, grpc.ForceCodec(hostile.RawCodec{}))
				if err != nil {
					s.met.Add("refused")
					continue
				}
				go func() {
					for i := range each {
						if stream.SendMsg(&hostile.Raw{Data: streamed(fmt.Sprint(i), data)}) != nil {
							s.met.Add("ended")
							return
						}
						s.sent(1, len(data))
					}
				}()
			}
		}
		<-ctx.Done()
		return nil
	}
}

// unreadREST sends REST requests without reading the answers.
func unreadREST(conns int) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
		defer cancel()
		text := explained(10_000, 10).json
		head := fmt.Sprintf("POST /v1/%s:recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", hostileTarget, len(text))
		for range conns {
			conn, err := (&net.Dialer{Timeout: time.Second, Control: narrow}).DialContext(ctx, "tcp", s.rest)
			if err != nil {
				s.met.Add("not connected")
				continue
			}
			s.cleanup(func() { _ = conn.Close() })
			go func() {
				if _, err := conn.Write(append([]byte(head), text...)); err != nil {
					s.met.Add("refused")
					return
				}
				s.sent(1, len(text))
			}()
		}
		<-ctx.Done()
		return nil
	}
}
