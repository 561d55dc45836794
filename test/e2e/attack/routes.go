//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// routeAttacks are on each path that REST answers with GET, over HTTP/2.
func routeAttacks() []*attack {
	var pki *testpki.Authority
	secure := func(s *site) error {
		if err := withNobody(s); err != nil {
			return err
		}
		return inTLS(&pki)(s)
	}
	small := bounds{memory: 256, processor: 15 * time.Second}
	windows := &attack{name: "windows", about: "REST over HTTP/2 with windows of 0: nothing of the answers can be sent", prepare: secure}
	for _, c := range []struct {
		name  string
		short bool
		paths []string
		token string
	}{
		{"pages", true, openPages, ""},
		{"contract", true, getPaths(), ""},
		{"contract-known", false, getPaths(), "nobody"},
		{"contract-honest", false, getPaths(), "honest"},
	} {
		windows.steps = append(windows.steps, step{name: c.name, short: c.short, bounds: small, run: closedWindows(120, 250, c.paths, c.token)})
	}
	return []*attack{windows}
}

// openPages are answered without credentials.
var openPages = []string{"/", "/ui/", "/docs/", "/openapi.json", "/healthz", "/readyz", "/ui/config.json", "/ui/sign-in", "/nowhere"}

// getPaths are the paths of the contract with GET, about the hostile target.
func getPaths() (paths []string) {
	for _, m := range methods() {
		if m.verb == http.MethodGet {
			paths = append(paths, m.path)
		}
	}
	return paths
}

// closedWindows asks for pages on as many streams of as many connections whose windows are 0.
func closedWindows(conns, each int, paths []string, token string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		var dialling sync.WaitGroup
		slots := make(chan struct{}, 8)
		for range conns {
			slots <- struct{}{}
			dialling.Go(func() {
				defer func() { <-slots }()
				conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}).DialContext(ctx, "tcp", s.rest)
				if err != nil {
					s.met.Add("not connected")
					return
				}
				s.cleanup(func() { _ = conn.Close() })
				framer := http2.NewFramer(conn, conn)
				var block bytes.Buffer
				encoder := hpack.NewEncoder(&block)
				_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
				_, _ = io.WriteString(conn, http2.ClientPreface)
				_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				for i := range each {
					block.Reset()
					for _, h := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", paths[i%len(paths)]}} {
						_ = encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
					}
					if token != "" {
						_ = encoder.WriteField(hpack.HeaderField{Name: "authorization", Value: "Bearer " + tokenOf(token)})
					}
					if framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}) != nil {
						s.met.Add("connections that were closed")
						return
					}
				}
				s.sent(each, 50)
			})
		}
		dialling.Wait()
		pause(ctx, 2*time.Second)
		s.met.AddAll("MiB", int(s.resident()>>20))
		return nil
	}
}
