//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

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

// variable matches a variable of a path of REST.
var variable = regexp.MustCompile(`\{\w+=([^}]*)\}`)

// getPaths are the paths of the contract with GET, about the hostile target, by the descriptors: a
// new one is attacked without anybody remembering.
func getPaths() (paths []string) {
	protoregistry.GlobalFiles.RangeFilesByPackage("setpoint.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for k := range methods.Len() {
				rule, _ := proto.GetExtension(methods.Get(k).Options(), annotations.E_Http).(*annotations.HttpRule)
				if rule.GetGet() == "" {
					continue
				}
				paths = append(paths, variable.ReplaceAllStringFunc(rule.GetGet(), func(text string) string {
					return strings.Join(strings.Split(hostileTarget, "/")[:strings.Count(text, "/")+1], "/")
				}))
			}
		}
		return true
	})
	return paths
}

// withNobody has the service know a caller that may do nothing: its token is good, and no grant is
// its own.
func withNobody(s *site) error {
	if err := asksWho("nobody")(s); err != nil {
		return err
	}
	path, err := s.write("policy.yaml", []byte("grants:\n  - {identities: [\"token:honest\"], clusters: [\"*\"], verbs: [\"*\"]}\n"))
	s.flags = append(s.flags, "--policy-file="+path)
	return err
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
