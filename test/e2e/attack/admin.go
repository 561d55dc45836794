//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// adminAttacks are on the port of operators, which may be reached by others.
func adminAttacks() []*attack {
	few := bounds{memory: 256, processor: 12 * time.Second, limit: 10 * time.Second}
	return []*attack{
		{name: "admin", about: "the operators' port: floods, long profiles, large bodies", steps: []step{
			{name: "metrics", short: true, bounds: few, run: pages(20, "/metrics")},
			{name: "profiles", bounds: few, run: pages(50, "/debug/pprof/profile?seconds=100000")},
			{name: "traces", bounds: few, run: pages(50, "/debug/pprof/trace?seconds=100000")},
			{name: "heap", bounds: few, run: pages(10, "/debug/pprof/heap?gc=1")},
			{name: "bodies", bounds: few, run: func(ctx context.Context, s *scene) error {
				response, err := http.Post("http://"+s.admin+"/debug/pprof/symbol", "text/plain", strings.NewReader(strings.Repeat("0x1+", 4<<20)))
				s.sent(1, 16<<20)
				if err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
				return nil
			}},
			{name: "series", short: true, bounds: few, run: manySeries},
		}},
	}
}

// floodTime is how long pages are asked for.
const floodTime = 3 * time.Second

func pages(n int, path string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithTimeout(ctx, floodTime)
		defer cancel()
		var callers sync.WaitGroup
		for range n {
			callers.Go(func() {
				for ctx.Err() == nil {
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+path, nil)
					if err != nil {
						return
					}
					response, err := http.DefaultClient.Do(request)
					if err != nil {
						continue
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
					s.met.Add(response.Status)
					s.sent(1, len(path))
				}
			})
		}
		callers.Wait()
		return nil
	}
}

// manySeries has names that callers choose come up in metrics, if any does.
func manySeries(ctx context.Context, s *scene) error {
	before, err := s.ask("/metrics")
	if err != nil {
		return err
	}
	for i := range 300 {
		_ = s.rested(ctx, fmt.Sprint("METHOD", i), fmt.Sprintf("/v1/clusters/c%d/namespaces/n%d/targets/t%d", i, i, i), nil, "User-Agent", fmt.Sprint("agent-", i))
		_ = s.rested(ctx, http.MethodGet, fmt.Sprintf("/nowhere/%d", i), nil)
		sent, _ := invoke(ctx, s.site, fmt.Sprintf("/service%d/Method%d", i, i), nil)
		r := requestFor(fmt.Sprintf("clusters/c%d/namespaces/n%d/targets/t%d", i, i, i))
		r.Spec.Metrics[0].Type = fmt.Sprint("Type", i)
		more, _ := sendUnary(ctx, s.site, bodyOf(r))
		s.sent(4, sent+more)
	}
	after, err := s.ask("/metrics")
	if err != nil {
		return err
	}
	if more := strings.Count(after, "\n") - strings.Count(before, "\n"); more > 300 {
		return fmt.Errorf("%d more series", more)
	}
	return nil
}
