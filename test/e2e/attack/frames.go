//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// attackTime is how long an attack lasts that is measured by its rate.
const attackTime = 2 * time.Second

// lasting attacks for that long, and for as long as it takes to meet what it must: on a busy
// machine that takes longer.
func lasting(d time.Duration, want func(*hostile.Tally) error, attack func(context.Context, *scene) error) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		during, cancel := context.WithCancel(ctx)
		defer cancel()
		failed := make(chan error, 1)
		go func() { failed <- attack(during, s) }()
		pause(ctx, d)
		problem := want(s.met)
		for ; problem != nil && ctx.Err() == nil; problem = want(s.met) {
			pause(ctx, 100*time.Millisecond)
		}
		cancel()
		return errors.Join(<-failed, problem)
	}
}

// met wants at least so many of something.
func met(what string, least int) func(*hostile.Tally) error {
	return func(y *hostile.Tally) error {
		if n := y.Of(what); n < least {
			return fmt.Errorf("%d %s, want at least %d", n, what, least)
		}
		return nil
	}
}

func anything(*hostile.Tally) error { return nil }

// frameAttacks are known abuses of HTTP/2 servers, frame by frame.
func frameAttacks() []*attack {
	frames := &attack{name: "frames", about: "floods of frames, and frames that HTTP/2 does not allow"}
	flood := bounds{memory: 256, processor: 2 * time.Second, limit: 3 * time.Minute, steady: true}
	// add adds a flood by so many connections, so many frames a second each.
	add := func(name string, conns int, perSecond float64, want func(*hostile.Tally) error, do func(*hostile.Frames) error) {
		frames.steps = append(frames.steps, step{name: name, short: true, bounds: flood, run: lasting(attackTime, want, onFrames(conns, perSecond, do))})
	}
	// reset begins calls and does something on each for which the server must reset it.
	reset := func(name string, kind http2.FrameType, payload ...byte) {
		add(name, 5, 500, anything, func(f *hostile.Frames) error {
			stream, err := f.Begin(recommendMethod)
			if err != nil {
				return err
			}
			return f.Framer.WriteRawFrame(kind, 0, stream, payload)
		})
	}
	add("rapid-reset", 5, 1000, anything, func(f *hostile.Frames) error { // CVE-2023-44487
		stream, err := f.Begin(recommendMethod)
		if err != nil {
			return err
		}
		return f.Framer.WriteRSTStream(stream, http2.ErrCodeCancel)
	})
	add("continuations", 20, 100, met("closed by the server", 20), func(f *hostile.Frames) error {
		if f.Next == 1 {
			f.Next = 3
			return f.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.Headers(recommendMethod)})
		}
		return f.Framer.WriteContinuation(1, false, f.Headers(recommendMethod, "x-more", strings.Repeat("a", 1000)))
	})
	add("pings", 20, 100, met("GOAWAY ENHANCE_YOUR_CALM", 20), func(f *hostile.Frames) error { return f.Framer.WritePing(false, [8]byte{}) })
	add("settings", 5, 500, anything, func(f *hostile.Frames) error {
		return f.Framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
	})
	add("resets", 5, 500, anything, func(f *hostile.Frames) error { // of streams that are not
		f.Next += 2
		return f.Framer.WriteRSTStream(f.Next, http2.ErrCodeCancel)
	})
	// MadeYouReset, CVE-2025-8671.
	reset("made-you-reset-by-windows", http2.FrameWindowUpdate, 0x7f, 0xff, 0xff, 0xff)
	reset("made-you-reset-by-increments-of-0", http2.FrameWindowUpdate, 0, 0, 0, 0)
	reset("made-you-reset-by-short-priorities", http2.FramePriority, 0, 0, 0, 0)
	add("priorities", 5, 1000, anything, func(f *hostile.Frames) error { // CVE-2019-9513
		f.Next += 2
		return f.Framer.WritePriority(f.Next, http2.PriorityParam{StreamDep: f.Next - 2, Weight: 7})
	})
	add("empty", 5, 1000, anything, func(f *hostile.Frames) error { // CVE-2019-9518
		if f.Next == 1 {
			if _, err := f.Begin(recommendMethod); err != nil {
				return err
			}
		}
		return f.Framer.WriteData(1, false, nil)
	})
	add("headers-without-names", 5, 200, anything, func(f *hostile.Frames) error { // CVE-2019-9516
		_, err := f.Begin(recommendMethod, make([]string, 100)...)
		return err
	})
	add("a-window-beyond-its-end", 20, 10, anything, func(f *hostile.Frames) error {
		return f.Framer.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, []byte{0x7f, 0xff, 0xff, 0xff})
	})
	// CVE-2019-9517, CVE-2019-9511: answers that may not be sent, or a byte of each.
	asked := requestFor(hostileTarget)
	asked.Explain = true
	message := framed(bodyOf(asked).wire)
	for name, window := range map[string]uint32{"windows-of-nothing": 0, "windows-of-a-byte": 1} {
		add(name, 5, 200, anything, func(f *hostile.Frames) error {
			if f.Next == 1 {
				if err := f.Framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
					return err
				}
			}
			stream, err := f.Begin(recommendMethod)
			if err != nil {
				return err
			}
			return f.Framer.WriteData(stream, true, message)
		})
	}
	// Headers of 1 MiB; and one long field, which a frame refers to 12,000 times, a byte each time.
	var large, again []string
	for i := range 1000 {
		large = append(large, "x-big", fmt.Sprint(i)+strings.Repeat("a", 1000))
	}
	for range 12_000 {
		again = append(again, "x-big", strings.Repeat("a", 3500))
	}
	frames.steps = append(frames.steps,
		step{name: "large-headers", short: true, bounds: flood, run: lasting(attackTime, anything, oversized(20, large))},
		step{name: "hpack-bomb", short: true, bounds: flood, run: lasting(attackTime, met("RST_STREAM FRAME_SIZE_ERROR", 3), oversized(20, again))})
	return []*attack{frames}
}

// onFrames keeps connections busy at a rate; it reopens those that the server closes, at most
// once a second.
func onFrames(conns int, perSecond float64, do func(*hostile.Frames) error) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		return together(conns, func(ctx context.Context, s *scene) error {
			hostile.Paced(ctx, 1, func() {
				f, err := hostile.Dial(s.grpc, s.met)
				if err != nil {
					s.met.Add("not connected")
					return
				}
				defer f.Conn.Close()
				on, cancel := context.WithCancel(ctx)
				defer cancel()
				hostile.Paced(on, perSecond, func() {
					s.requests.add(1)
					if err := do(f); err != nil || f.Gone() {
						s.met.Add("closed by the server")
						cancel()
					}
				})
			})
			return nil
		})(ctx, s)
	}
}

// oversized sends headers that are larger than is allowed, each on a connection of its own.
func oversized(perSecond float64, more []string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		const frame = 16 << 10
		hostile.Paced(ctx, perSecond, func() {
			f, err := hostile.Dial(s.grpc, s.met)
			if err != nil {
				return
			}
			defer f.Conn.Close()
			block := f.Headers(recommendMethod, more...)
			s.sent(1, len(block))
			first := min(len(block), frame)
			err = f.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:first], EndHeaders: first == len(block)})
			for at := first; at < len(block) && err == nil; at += frame {
				err = f.Framer.WriteContinuation(1, at+frame >= len(block), block[at:min(len(block), at+frame)])
			}
			time.Sleep(10 * time.Millisecond)
		})
		return nil
	}
}

// begunCalls begins a thousand calls on each of five connections, and sends no message on them.
func begunCalls(method string, more ...string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		for range 5 {
			f, err := hostile.Dial(s.grpc, s.met)
			if err != nil {
				return err
			}
			defer f.Conn.Close()
			for range 1000 {
				if _, err := f.Begin(method, more...); err != nil {
					s.met.Add("broken")
					break
				}
				s.requests.add(1)
			}
		}
		<-ctx.Done()
		return nil
	}
}

// idleStreams has streams that were answered once, and health watches, which stay open, and
// connections that say nothing.
func idleStreams(ctx context.Context, s *scene) error {
	err := together(4, func(ctx context.Context, s *scene) error {
		conn, err := s.dial()
		if err != nil {
			return err
		}
		s.cleanup(func() { _ = conn.Close() })
		for i := 0; i < 500 && ctx.Err() == nil; i++ {
			talk, err := setpointv1.NewRecommendationServiceClient(conn).StreamRecommend(ctx)
			if err == nil {
				err = talk.Send(&setpointv1.StreamRecommendRequest{Id: "1", Request: requestFor(hostileTarget)})
			}
			if err == nil {
				_, err = talk.Recv()
			}
			s.met.Add("stream " + codeOf(err))
			watch, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{})
			if err == nil {
				_, err = watch.Recv()
			}
			s.met.Add("watch " + codeOf(err))
			s.requests.add(2)
		}
		return nil
	})(ctx, s)
	return errors.Join(err, connections(1000, onREST, "", "", time.Hour)(ctx, s))
}

// probedHealth checks health as an orchestrator does, on a connection of its own, while others hold
// as many connections and health watches as they can.
func probedHealth(ctx context.Context, s *scene) error {
	ctx, cancel := context.WithCancel(ctx)
	var attacking sync.WaitGroup
	defer attacking.Wait()
	defer cancel()
	for _, attack := range []func(context.Context, *scene) error{
		connections(500, onGRPC, "", "", time.Hour), connections(500, onREST, "", "", time.Hour), connections(500, onAdmin, "", "", time.Hour),
		streams(15, 1000, healthv1.Health_Watch_FullMethodName, nil),
	} {
		attacking.Go(func() { _ = attack(ctx, s) })
	}
	checks := map[string]func(context.Context) error{
		"the operators' port": func(context.Context) error { return process.OK(s.client, "http://"+s.admin+"/readyz") },
		"gRPC": func(ctx context.Context) error {
			conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
			return err
		},
	}
	for range 20 {
		for where, check := range checks {
			for began := time.Now(); ; pause(ctx, 50*time.Millisecond) {
				short, stop := context.WithTimeout(ctx, 5*time.Second)
				err := check(short)
				stop()
				if err == nil {
					s.met.Add("healthy")
					break
				}
				s.met.Add("not healthy at first")
				if time.Since(began) > time.Minute {
					return fmt.Errorf("health at %s: %w", where, err)
				}
			}
		}
		pause(ctx, 100*time.Millisecond)
	}
	return nil
}
