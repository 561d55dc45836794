//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// routeAttacks are on each path that REST answers with GET, and on HTTP/2.
func routeAttacks() []*attack {
	var pki *testpki.Authority
	secure := func(s *site) error {
		if err := withNobody(s); err != nil {
			return err
		}
		return inTLS(&pki)(s)
	}
	small := bounds{memory: 256, processor: 15 * time.Second}
	gets := &attack{name: "gets", about: "what a browser sends for another site's image, and another poller's bounds, to each path with GET", redis: true}
	gets.steps = append(gets.steps,
		step{name: "other-site", short: true, run: otherSitesImages},
		step{name: "other-bounds", short: true, run: otherBounds})
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
	return []*attack{gets, windows}
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

// polled has a target decided from what is stored: a queue that needs 30 replicas, of which a
// recommendation counts as applied.
func polled(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	request := requestFor(hostileTarget)
	_, err = setpointv1.NewTargetServiceClient(conn).SetTargetSpec(s.asHonest(ctx), &setpointv1.SetTargetSpecRequest{Name: hostileTarget, TargetSpec: &setpointv1.TargetSpec{
		Spec: request.GetSpec(), AssumeApplied: true, Period: durationpb.New(time.Second),
	}})
	if err != nil {
		return err
	}
	request.ExternalMetrics[0].Value = "300"
	_, err = setpointv1.NewRecommendationServiceClient(conn).ReportObservation(s.asHonest(ctx), &setpointv1.ReportObservationRequest{Target: hostileTarget, ExternalMetrics: request.GetExternalMetrics()})
	return err
}

// poll returns what the honest poller is told, whose bounds are the spec's.
func poll(ctx context.Context, s *scene) (int32, error) {
	conn, err := s.dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	answer, err := setpointv1.NewRecommendationServiceClient(conn).GetRecommendation(s.asHonest(ctx), &setpointv1.GetRecommendationRequest{Target: hostileTarget})
	return answer.GetRecommendation().GetDesiredReplicas(), err
}

// settledPolls polls until the count is what the queue needs.
func settledPolls(ctx context.Context, s *scene) error {
	if err := polled(ctx, s); err != nil {
		return err
	}
	for range 10 {
		count, err := poll(ctx, s)
		if err != nil || count == 30 {
			return err
		}
		pause(ctx, 1100*time.Millisecond)
	}
	return errors.New("the target does not come to 30 replicas: the attack shows nothing")
}

// narrowed are parameters that each path is asked with: those that it doesn't know are refused,
// or change nothing.
const narrowed = "?maxReplicas=1&minReplicas=1&currentReplicas=1"

// otherSitesImages sends what a browser sends for an image, a script and a link of another site, to
// each path: nothing in the store may change.
func otherSitesImages(ctx context.Context, s *scene) error {
	if err := settledPolls(ctx, s); err != nil {
		return err
	}
	for _, path := range slices.Concat(getPaths(), openPages) {
		for _, headers := range [][]string{
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
			{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"},
			{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"},
			{"Origin", "null"},
		} {
			for _, parameters := range []string{"", narrowed} {
				before, err := s.stored(ctx)
				if err != nil {
					return err
				}
				short, cancel := context.WithTimeout(ctx, time.Second) // a watch goes on
				code := codeOf(s.rested(short, http.MethodGet, path+parameters, nil, headers...))
				cancel()
				s.sent(1, len(path))
				s.met.Add(code)
				after, err := s.stored(ctx)
				if err != nil {
					return err
				}
				if changed := differing(before, after); changed != "" {
					return fmt.Errorf("GET %s%s of another site (%s) was answered %s and changed %s", path, parameters, strings.Join(headers, " "), code, changed)
				}
				if code == codes.OK.String() && strings.HasSuffix(path, ":watch") {
					return fmt.Errorf("GET %s of another site opened a stream", path)
				}
			}
		}
	}
	return nil
}

// otherBounds polls with other bounds, which narrow the answer: what the honest poller gets next
// is what it had.
func otherBounds(ctx context.Context, s *scene) error {
	if err := settledPolls(ctx, s); err != nil {
		return err
	}
	for _, path := range getPaths() {
		for _, parameters := range []string{"?maxReplicas=1", "?minReplicas=90", "?minReplicas=1&maxReplicas=2"} {
			short, cancel := context.WithTimeout(ctx, time.Second)
			err := s.rested(short, http.MethodGet, path+parameters, nil)
			cancel()
			s.sent(1, len(path))
			s.met.Add(codeOf(err))
			if !strings.HasSuffix(path, "/recommendation") {
				continue
			}
			pause(ctx, 1100*time.Millisecond) // the period, after which is decided again
			count, err := poll(ctx, s)
			if err != nil {
				return err
			}
			if count != 30 {
				return fmt.Errorf("after GET %s%s by another poller, the honest one is told %d replicas, was told 30", path, parameters, count)
			}
		}
	}
	return nil
}

// stored are the contents of Redis' keys of targets, by name.
func (s *site) stored(ctx context.Context) (map[string]string, error) {
	client := goredis.NewClient(&goredis.Options{Addr: s.redis})
	defer client.Close()
	all := make(map[string]string)
	keys := client.Scan(ctx, 0, "*hostile*", 1000).Iterator()
	for keys.Next(ctx) {
		text, err := client.Dump(ctx, keys.Val()).Result()
		if err != nil {
			return nil, err
		}
		all[keys.Val()] = text
	}
	if err := keys.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no key in Redis is of the target: the attack shows nothing")
	}
	return all, nil
}

func differing(before, after map[string]string) string {
	for key, text := range after {
		if before[key] != text {
			return key
		}
	}
	for key := range before {
		if _, there := after[key]; !there {
			return key
		}
	}
	return ""
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
