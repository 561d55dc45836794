//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

const honestToken = "sp_honest-caller-of-make-attack"

// tokensFile is a file of tokens in which the honest caller has one, and others.
func tokensFile(identities ...string) []byte {
	text := "tokens:\n"
	for _, identity := range append([]string{"honest"}, identities...) {
		text += fmt.Sprintf("  - {identity: %s, sha256: \"%x\"}\n", identity, sha256.Sum256([]byte(tokenOf(identity))))
	}
	return []byte(text)
}

func tokenOf(identity string) string {
	if identity == "honest" {
		return honestToken
	}
	return "sp_token-of-" + identity
}

// asksWho has the service know callers by tokens.
func asksWho(identities ...string) func(*site) error {
	return func(s *site) error {
		path, err := s.write("tokens.yaml", tokensFile(identities...))
		s.honestToken = honestToken
		s.flags = append(s.flags, "--auth-tokens-file="+path)
		return err
	}
}

// Where attacks connect to.
func onGRPC(s *site) string  { return s.grpc }
func onREST(s *site) string  { return s.rest }
func onAdmin(s *site) string { return s.admin }

// openAttacks need no credentials.
func openAttacks() []*attack {
	small := bounds{memory: 256, processor: 15 * time.Second}
	ends := small
	ends.limit = 3 * time.Minute
	return []*attack{
		{name: "watch", item: "3", about: "15,000 Health/Watch streams without credentials, on 15 connections", prepare: asksWho(), steps: []step{
			{name: "health", short: true, bounds: small, run: streams(15, 1000, healthv1.Health_Watch_FullMethodName, nil)},
			{name: "health-on-one", bounds: small, run: streams(1, 15_000, healthv1.Health_Watch_FullMethodName, nil)},
			{name: "health-names", bounds: small, run: streams(15, 1000, healthv1.Health_Watch_FullMethodName, field(1, []byte(strings.Repeat("n", 60_000))))},
			{name: "reflection", bounds: small, run: streams(15, 1000, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", field(7, []byte("*")))},
			{name: "recommend", short: true, bounds: small, run: streams(15, 1000, streamMethod, nil)},
			{name: "decisions", bounds: small, run: streams(15, 1000, setpointv1.TargetService_WatchDecisions_FullMethodName, everyDecision)},
		}},
		// Without authentication the call stays open.
		{name: "watchers", about: "15,000 watches of all decisions, while 30 are made; then watches that nobody reads", steps: []step{
			{name: "read", run: whileDecided(30, streams(15, 1000, setpointv1.TargetService_WatchDecisions_FullMethodName, everyDecision))},
			{name: "unread", run: whileDecided(30, unreadWatches(15, 100, setpointv1.TargetService_WatchDecisions_FullMethodName, everyDecision))},
		}},
		{name: "connections", item: "3", about: "5,000 connections that say nothing, without credentials", prepare: asksWho(), steps: []step{
			{name: "grpc", short: true, bounds: small, run: connections(5000, onGRPC, "", "", 3*time.Second)},
			{name: "rest", short: true, bounds: small, run: connections(5000, onREST, "", "", 3*time.Second)},
			{name: "admin", short: true, bounds: small, run: connections(5000, onAdmin, "", "", 3*time.Second)},
			{name: "grpc-preface", bounds: small, run: connections(5000, onGRPC, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "", 3*time.Second)},
			{name: "many-after-another", bounds: small, run: reconnecting},
		}},
		{name: "slow-headers", about: "2,000 connections, a byte of headers a second each", prepare: asksWho(), steps: []step{
			{name: "rest", bounds: small, run: connections(2000, onREST, "POST /v1/x HTTP/1.1\r\nHost: a\r\nX-Slow: ", "a", 5*time.Second)},
			{name: "admin", bounds: small, run: connections(2000, onAdmin, "GET /metrics HTTP/1.1\r\nHost: a\r\nX-Slow: ", "a", 5*time.Second)},
			{name: "grpc", bounds: small, run: connections(2000, onGRPC, "PRI * HTTP/2.0\r\n", "a", 5*time.Second)},
		}},
		// Few enough that all are taken: the service must close them itself.
		{name: "silence", about: "500 connections to REST, a byte a second of headers each, and 500 silent ones to gRPC; 500 with half of a frame", steps: []step{
			{name: "closed", short: true, bounds: ends, run: lasting(11*time.Second, met("closed by the server", 900), func(ctx context.Context, s *scene) error {
				go func() { _ = connections(500, onGRPC, "", "", time.Hour)(ctx, s) }()
				return connections(500, onREST, "POST /v1/x HTTP/1.1\r\nHost: a\r\nX-Slow: ", "a", time.Hour)(ctx, s)
			})},
			{name: "half-a-frame", short: true, bounds: small, run: connections(500, onGRPC, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+"\x00\x40\x00\x01\x04\x00\x00\x00\x01abc", "a", 3*time.Second)},
			{name: "calls", short: true, bounds: small, run: lasting(2*attackTime, anything, begunCalls(recommendMethod))},
			{name: "idle-streams", short: true, bounds: ends, run: lasting(attackTime, met("stream OK", 2000), idleStreams)},
		}},
		{name: "half-closed", about: "2,000 connections that are closed on one side in the midst of a request", steps: []step{
			{name: "rest", bounds: small, run: halfClosed(onREST, "POST /v1/"+hostileTarget+":recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")},
			{name: "grpc", bounds: small, run: halfClosed(onGRPC, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")},
			{name: "admin", bounds: small, run: halfClosed(onAdmin, "GET /metrics HTTP/1.1\r\nHost: a\r\n")},
		}},
	}
}

// descOf describes a method. A service starts a method with a single request message when its
// caller says that it sends no other; until then it only waits.
func descOf(method string) *grpc.StreamDesc {
	if method == healthv1.Health_Watch_FullMethodName || method == setpointv1.TargetService_WatchDecisions_FullMethodName {
		return &grpc.StreamDesc{ServerStreams: true}
	}
	return bothWays
}

// everyDecision is a request of WatchDecisions for all.
var everyDecision = field(1, []byte("clusters/-/namespaces/-/targets/-"))

// whileDecided makes decisions on several targets during an attack, so that watchers have
// something to receive.
func whileDecided(targets int, attack func(context.Context, *scene) error) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		var deciding sync.WaitGroup
		deciding.Go(func() {
			for i := 0; i < targets && ctx.Err() == nil; i++ {
				sent, err := sendUnary(ctx, s.site, bodyOf(requestFor(fmt.Sprintf("clusters/watched/namespaces/n/targets/t%d", i))))
				s.sent(1, sent)
				s.met.Add("decision " + codeOf(err))
			}
		})
		err := attack(ctx, s)
		deciding.Wait()
		return err
	}
}

// unreadWatches are watches whose responses are not read.
func unreadWatches(conns, each int, method string, message []byte) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for range conns {
			conn, err := s.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			for range each {
				stream, err := conn.NewStream(ctx, descOf(method), method, grpc.ForceCodec(hostile.RawCodec{}))
				if err != nil {
					s.met.Add("not opened")
					break
				}
				_ = stream.SendMsg(&hostile.Raw{Data: message})
				s.sent(1, len(message))
			}
		}
		pause(ctx, 10*time.Second)
		s.met.AddAll("MiB", int(s.resident()>>20))
		return nil
	}
}

// streams opens streams without credentials, with a first message unless that is nil, and
// keeps them open for a while.
func streams(conns, each int, method string, message []byte) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var opening sync.WaitGroup
		for range conns {
			opening.Go(func() {
				conn, err := s.dial()
				if err != nil {
					return
				}
				s.cleanup(func() { _ = conn.Close() })
				for range each {
					// What can't be opened because the connection has too many waits.
					short, stop := context.WithCancel(ctx)
					timer := time.AfterFunc(2*time.Second, stop)
					stream, err := conn.NewStream(short, descOf(method), method, grpc.ForceCodec(hostile.RawCodec{}))
					if err != nil || !timer.Stop() {
						s.met.Add("not opened")
						stop()
						return
					}
					_ = stream.SendMsg(&hostile.Raw{Data: message})
					s.sent(1, len(message))
					go func() {
						defer stop()
						for {
							if err := stream.RecvMsg(&hostile.Raw{}); err != nil {
								s.met.Add(codeOf(err))
								return
							}
							s.met.Add("answers")
						}
					}()
				}
			})
		}
		opening.Wait()
		pause(ctx, 2*time.Second)
		s.met.AddAll("MiB", int(s.resident()>>20))
		return nil
	}
}

// pause waits, but no longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// connections opens as many, says something on each, then goes on every second.
func connections(n int, address func(*site) string, begin, again string, hold time.Duration) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var all []net.Conn
		var reading sync.WaitGroup
		defer reading.Wait()
		defer func() {
			for _, conn := range all {
				_ = conn.Close()
			}
		}()
		for range n {
			conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address(s.site))
			if err != nil {
				s.met.Add("not connected")
				if ctx.Err() != nil {
					break
				}
				continue
			}
			all = append(all, conn)
			_, _ = io.WriteString(conn, begin)
			s.sent(1, len(begin))
			reading.Go(func() {
				_, _ = io.Copy(io.Discard, conn)
				if ctx.Err() == nil {
					s.met.Add("closed by the server")
				}
			})
		}
		for until := time.Now().Add(hold); time.Now().Before(until) && ctx.Err() == nil; {
			pause(ctx, time.Second)
			if again != "" {
				for _, conn := range all {
					_, _ = io.WriteString(conn, again)
				}
			}
		}
		cancel()
		return nil
	}
}

// reconnecting opens and closes connections as fast as it can.
func reconnecting(ctx context.Context, s *scene) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			address := []string{s.grpc, s.rest, s.admin}[i%3]
			for n := 0; n < 3000 && ctx.Err() == nil; n++ { // ports are not without end
				conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
				if err != nil {
					s.met.Add("not connected")
					continue
				}
				s.met.Add("connected")
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
		})
	}
	workers.Wait()
	return nil
}

func halfClosed(address func(*site) string, begin string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		var all []net.Conn
		for range 2000 {
			conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address(s.site))
			if err != nil {
				s.met.Add("not connected")
				continue
			}
			all = append(all, conn)
			_, _ = io.WriteString(conn, begin)
			_ = conn.(*net.TCPConn).CloseWrite()
			s.sent(1, len(begin))
		}
		pause(ctx, 2*time.Second)
		for _, conn := range all {
			_ = conn.Close()
		}
		return nil
	}
}
