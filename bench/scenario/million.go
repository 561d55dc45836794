package scenario

import (
	"context"
	"fmt"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/process"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/request"
)

var million = Scenario{
	Name: "million", Title: "A million targets stored",
	Note: "One instance has decided for each target, in batches, until its history has its full length. Redis memory is its used_memory, less that of an empty server. Service memory is the resident set while the service decides for all targets again.",
	play: (*stage).million,
}

// storedPods is how many pods the stored targets have: histories do not depend on it.
// storedSet is how many targets are encoded at once.
const storedPods, storedSet = 2, 50_000

func (s *stage) million() ([]report.Figure, error) {
	redis, err := s.redis()
	if err != nil {
		return nil, err
	}
	empty, err := redis.UsedMemory(s.ctx)
	if err != nil {
		return nil, err
	}
	service, err := s.service(redis)
	if err != nil {
		return nil, err
	}
	c, err := s.dial(service.GRPC)
	if err != nil {
		return nil, err
	}
	var sets []*request.Set
	for first := 0; first < s.Stored; first += storedSet {
		set, err := request.NewSet(first, min(storedSet, s.Stored-first), storedPods, false)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	resident := 0.0
	var filled []float64
	for round := range s.Rounds {
		began := time.Now()
		for _, set := range sets {
			if err := s.fill(c, set, 1); err != nil {
				return nil, err
			}
			resident = max(resident, process.Resident(service.PID()))
		}
		filled = append(filled, float64(s.Stored)/time.Since(began).Seconds())
		s.Log("%s: round %d of %d: %.0f/s, %.0f MiB resident", s.name, round+1, s.Rounds, filled[round], resident/(1<<20))
	}
	used, err := redis.UsedMemory(s.ctx)
	if err != nil {
		return nil, err
	}
	logs, err := redis.MemoryOf(s.ctx, "list")
	if err != nil {
		return nil, err
	}
	records, err := redis.MemoryOf(s.ctx, "string")
	if err != nil {
		return nil, err
	}
	pages, err := s.pages(c)
	if err != nil {
		return nil, err
	}
	figures := []report.Figure{
		{Name: "Redis memory", Unit: "MiB", Runs: []float64{(used - empty) / (1 << 20)}, Goal: report.AtMost(700)},
		{Name: "of which histories, estimated from a sample", Unit: "MiB", Runs: []float64{records / (1 << 20)}},
		{Name: "of which decision logs, estimated from a sample", Unit: "MiB", Runs: []float64{logs / (1 << 20)}},
		{Name: "Redis memory a target", Unit: "B", Runs: []float64{(used - empty) / float64(s.Stored)}},
		{Name: "service memory, the most that was resident", Unit: "MiB", Runs: []float64{resident / (1 << 20)}, Goal: report.AtMost(300)},
		{Name: "recommendations, all targets in turn, two pods", Unit: "/s", Runs: filled},
	}
	return append(figures, pages...), nil
}

// pages lists targets, from the first one and from random positions.
func (s *stage) pages(c *client.Client) ([]report.Figure, error) {
	var figures []report.Figure
	for _, of := range []struct {
		parent string
		size   int32
		goal   *report.Goal
	}{{"clusters/-/namespaces/-", 100, report.AtMost(20)}, {"clusters/prod/namespaces/-", 1000, nil}, {"clusters/prod/namespaces/shop-00001", 100, report.AtMost(20)}} {
		p50 := report.Figure{Name: fmt.Sprintf("page of %d, %s, p50", of.size, of.parent), Unit: "ms", Goal: of.goal}
		p99 := report.Figure{Name: fmt.Sprintf("page of %d, %s, p99", of.size, of.parent), Unit: "ms"}
		for range s.Runs {
			req := &setpointv1.ListTargetsRequest{Parent: of.parent, PageSize: of.size}
			r := load.Closed(s.ctx, 1, s.Duration, func(ctx context.Context, _ int) error {
				page := &setpointv1.ListTargetsResponse{}
				if err := c.Ask(ctx, setpointv1.TargetService_ListTargets_FullMethodName, req, page); err != nil {
					return err
				}
				if len(page.GetTargets()) == 0 && req.GetPageToken() == "" { // the last page may be empty
					return fmt.Errorf("a page of %s is empty", of.parent)
				}
				req.PageToken = page.GetNextPageToken()
				return nil
			})
			if r.Failed > 0 {
				return nil, r.Err
			}
			p50.Runs, p99.Runs = append(p50.Runs, millis(r.Quantile(.5))), append(p99.Runs, millis(r.Quantile(.99)))
		}
		figures = append(figures, p50, p99)
	}
	return figures, nil
}
