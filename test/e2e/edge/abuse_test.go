//go:build linux

package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// abuses are known abuses of HTTP/2 servers that are not among attacks, frame by frame, and
// those of existing tools: h2load of nghttp2, and slowhttptest. (Not h2spec: its last release
// is of 2020.)
func abuses() []*attack {
	return []*attack{
		{name: "MadeYouReset, by windows (CVE-2025-8671)", sends: "5 connections, 500 calls a second each that the server must reset", run: madeYouReset(func(f *hostile.Frames, stream uint32) error {
			return f.Framer.WriteRawFrame(http2.FrameWindowUpdate, 0, stream, []byte{0x7f, 0xff, 0xff, 0xff})
		})},
		{name: "MadeYouReset, by increments of 0", sends: "the same", run: madeYouReset(func(f *hostile.Frames, stream uint32) error {
			return f.Framer.WriteRawFrame(http2.FrameWindowUpdate, 0, stream, []byte{0, 0, 0, 0})
		})},
		{name: "MadeYouReset, by priorities of 4 bytes", sends: "the same", run: madeYouReset(func(f *hostile.Frames, stream uint32) error {
			return f.Framer.WriteRawFrame(http2.FramePriority, 0, stream, []byte{0, 0, 0, 0})
		})},
		{name: "resource loop (CVE-2019-9513)", sends: "5 connections, 1000 priorities a second each", run: func(ctx context.Context, p *instance, seen *hostile.Tally) {
			onFrames(ctx, p, 5, 1000, seen, func(f *hostile.Frames) error {
				f.Next += 2
				return f.Framer.WritePriority(f.Next, http2.PriorityParam{StreamDep: f.Next - 2, Weight: 7})
			})
		}},
		{name: "empty frames (CVE-2019-9518)", sends: "5 connections, 1000 a second each", run: emptyFrames},
		{name: "headers without names (CVE-2019-9516)", sends: "5 connections, 200 calls a second each, 50 headers each", run: func(ctx context.Context, p *instance, seen *hostile.Tally) {
			more := make([]string, 100)
			onFrames(ctx, p, 5, 200, seen, func(f *hostile.Frames) error {
				_, err := f.Begin(recommendMethod, more...)
				return err
			})
		}},
		{name: "windows of nothing (CVE-2019-9517)", sends: "5 connections, 200 calls a second each, whose answers may not be sent", run: closedWindows(0)},
		{name: "windows of a byte (CVE-2019-9511)", sends: "the same, a byte of window a call", run: closedWindows(1)},
		{name: "a window beyond its end", sends: "20 connections", run: func(ctx context.Context, p *instance, seen *hostile.Tally) {
			onFrames(ctx, p, 20, 10, seen, func(f *hostile.Frames) error {
				return f.Framer.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, []byte{0x7f, 0xff, 0xff, 0xff})
			})
		}, goal: .5},
		{name: "withheld on streams, with small calls", sends: "20 connections, 100 streams of 512 KiB each that do not end, 50 small calls a second each", run: withheldWithCalls, settle: 3},
		{name: "h2load", sends: "20 connections, 100 calls each at once, no windows to speak of", check: ran("h2load"), run: tool("h2load", "--duration=3", "-c20", "-m100", "-w1", "-W1", "-dMESSAGE", "-Hcontent-type: application/grpc", "-Hte: trailers", "http://GRPC"+recommendMethod), goal: .05, least: .002},
		{name: "slowhttptest, headers", sends: "1000 connections", check: ran("slowhttptest"), run: tool("slowhttptest", "-H", "-c1000", "-r500", "-l4", "-i1", "-uhttp://REST/openapi.json"), settle: 2},
		{name: "slowhttptest, bodies", sends: "1000 connections", check: ran("slowhttptest"), run: tool("slowhttptest", "-B", "-c1000", "-r500", "-l4", "-i1", "-s1000000", "-fapplication/json", "-uhttp://REST/v1/"+targetIn("slow")+":recommend"), settle: 2},
		{name: "slowhttptest, answers", sends: "1000 connections that read 5 bytes a second", check: ran("slowhttptest"), run: tool("slowhttptest", "-X", "-c1000", "-r500", "-l4", "-n1", "-z5", "-w10", "-y20", "-uhttp://REST/openapi.json"), settle: 2},
		{name: "slowhttptest, at the operators' port", sends: "1000 connections", check: ran("slowhttptest"), run: tool("slowhttptest", "-H", "-c1000", "-r500", "-l4", "-i1", "-uhttp://ADMIN/metrics"), settle: 2},
	}
}

// ran checks that a program that attacks did. Where it is missing, other than in CI, the
// test says so.
func ran(name string) func(*hostile.Tally) error {
	return func(seen *hostile.Tally) error {
		if seen.Of(name+" ran") > 0 || seen.Of("no "+name) > 0 && os.Getenv("CI") == "" {
			return nil
		}
		return fmt.Errorf("%s did not attack", name)
	}
}

// tool runs a program that attacks: GRPC, REST and ADMIN in its arguments are the addresses,
// MESSAGE is a file with an empty message of gRPC.
func tool(name string, args ...string) func(context.Context, *instance, *hostile.Tally) {
	return func(ctx context.Context, p *instance, seen *hostile.Tally) {
		if _, err := exec.LookPath(name); err != nil {
			seen.Add("no " + name)
			return
		}
		folder, err := os.MkdirTemp("", "setpoint-attack-")
		if err != nil {
			seen.Add(err.Error())
			return
		}
		defer os.RemoveAll(folder)
		message := filepath.Join(folder, "message")
		if err := os.WriteFile(message, prefixed(nil, 0), 0o600); err != nil {
			seen.Add(err.Error())
			return
		}
		addresses := strings.NewReplacer("GRPC", p.grpc, "REST", p.rest, "ADMIN", p.admin, "MESSAGE", message)
		own := make([]string, len(args))
		for i, arg := range args {
			own[i] = addresses.Replace(arg)
		}
		output, err := exec.CommandContext(ctx, name, own...).CombinedOutput()
		if err != nil && ctx.Err() == nil {
			seen.Add(fmt.Sprintf("%s: %v: %.200s", name, err, output))
			return
		}
		seen.Add(name + " ran")
	}
}

// madeYouReset begins calls and does something on each for which the server must reset it.
func madeYouReset(invalid func(*hostile.Frames, uint32) error) func(context.Context, *instance, *hostile.Tally) {
	return func(ctx context.Context, p *instance, seen *hostile.Tally) {
		onFrames(ctx, p, 5, 500, seen, func(f *hostile.Frames) error {
			stream, err := f.Begin(recommendMethod)
			if err != nil {
				return err
			}
			return invalid(f, stream)
		})
	}
}

func emptyFrames(ctx context.Context, p *instance, seen *hostile.Tally) {
	onFrames(ctx, p, 5, 1000, seen, func(f *hostile.Frames) error {
		if f.Next == 1 {
			if _, err := f.Begin(recommendMethod); err != nil {
				return err
			}
		}
		return f.Framer.WriteData(1, false, nil)
	})
}

// prefixed is a message with gRPC's prefix, which says that it has so many bytes.
func prefixed(message []byte, size int) []byte {
	return append([]byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}, message...)
}

// closedWindows sends requests on connections whose streams have a window of so many bytes.
func closedWindows(window uint32) func(context.Context, *instance, *hostile.Tally) {
	return func(ctx context.Context, p *instance, seen *hostile.Tally) {
		request := requestFor(targetIn("windows"))
		request.Explain = true
		message, err := proto.Marshal(request)
		if err != nil {
			seen.Add(err.Error())
			return
		}
		onFrames(ctx, p, 5, 200, seen, func(f *hostile.Frames) error {
			if f.Next == 1 {
				if err := f.Framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
					return err
				}
			}
			stream, err := f.Begin(recommendMethod)
			if err != nil {
				return err
			}
			return f.Framer.WriteData(stream, true, prefixed(message, len(message)))
		})
	}
}

// withheldWithCalls withholds the ends of messages on streams, and makes small calls on the
// same connections.
func withheldWithCalls(ctx context.Context, p *instance, seen *hostile.Tally) {
	const streams, window, frame = 100, 60 << 10, 15 << 10
	message, err := proto.Marshal(requestFor(targetIn("small")))
	if err != nil {
		seen.Add(err.Error())
		return
	}
	onFrames(ctx, p, 20, 50, seen, func(f *hostile.Frames) error {
		if f.Next < 2*streams {
			stream, err := f.Begin("/setpoint.v1.RecommendationService/StreamRecommend")
			if err != nil {
				return err
			}
			first := prefixed(nil, 512<<10)
			for sent := 0; sent < window; sent += frame {
				if err := f.Framer.WriteData(stream, false, append(first, make([]byte, frame-len(first))...)); err != nil {
					return err
				}
				first = nil
			}
		}
		stream, err := f.Begin(recommendMethod)
		if err != nil {
			return err
		}
		return f.Framer.WriteData(stream, true, prefixed(message, len(message)))
	})
}

// Known abuses of HTTP/2 servers exhaust neither memory nor honest callers.
func TestAbuseOfHTTP(t *testing.T) {
	for _, name := range []string{"h2load", "slowhttptest"} {
		if _, err := exec.LookPath(name); err != nil && os.Getenv("CI") != "" {
			t.Errorf("%s is missing: run scripts/http2.sh", name)
		}
	}
	holdAgainst(t, "abuse", abuses())
}

// A health check on its own connection, as from an orchestrator, is answered while others hold
// as many connections and health checks as they can, over gRPC and at the operators' port; and
// callers with calls in flight go on.
func TestHealthIsAnsweredUnderAttack(t *testing.T) {
	f := newFolder(t)
	token, entry := newToken(t, "honest")
	p := start(t, "--auth-tokens-file="+f.write("tokens.yaml", []byte("tokens:\n"+entry)), "--max-connections=300")
	c := newCaller(t, p, nil, token)
	c.expect(codes.OK, targetIn("honest"), "before")
	memory := p.memory()
	ctx, cancel := context.WithCancel(t.Context())
	seen := hostile.NewTally()
	var attacking sync.WaitGroup
	defer func() { cancel(); attacking.Wait() }()
	attacking.Go(func() { connections(ctx, p.grpc, 500, "", "", time.Hour, seen) })
	attacking.Go(func() { connections(ctx, p.rest, 500, "", "", time.Hour, seen) })
	attacking.Go(func() { connections(ctx, p.admin, 500, "", "", time.Hour, seen) })
	attacking.Go(func() {
		for range 15 {
			frames, err := hostile.Dial(p.grpc, seen)
			if err != nil {
				return
			}
			defer frames.Conn.Close()
			for range 1000 {
				stream, err := frames.Begin("/grpc.health.v1.Health/Watch")
				if err != nil || frames.Framer.WriteData(stream, true, prefixed(nil, 0)) != nil {
					break
				}
			}
		}
		<-ctx.Done()
	})
	for range 10 {
		for _, address := range []string{p.grpc, p.admin} {
			eventually(t, callTimeout, "a health check at "+address, func() error { return probe(t, p, address) })
		}
		c.served(targetIn("honest"))
	}
	if grown := p.memory() - memory; grown > 100 {
		t.Errorf("%.0f MiB more memory", grown)
	}
	t.Logf("met %s", seen)
}

// probe checks health as an orchestrator does, on its own connection.
func probe(t *testing.T, p *instance, address string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if address == p.admin {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	return err
}
