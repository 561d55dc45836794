package nomad

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/nomad/api"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/sharing"
)

// Filters for allocations and deployments that have not ended; Nomad lists others until they
// are garbage collected.
const (
	liveAllocations   = `DesiredStatus == "run" or ClientStatus == "running" or ClientStatus == "pending" or ClientStatus == "unknown"`
	activeDeployments = `Status != "successful" and Status != "failed" and Status != "cancelled"`
)

// reuse is how long a read serves equal requests, from its start. Objects of a namespace are
// due together, so that one list is read for all of them.
const reuse = time.Second

// Lists are read in a bounded number of pages.
const (
	pageSize = 1000
	maxPages = 100
)

// reader reads Nomad, each item once for all concurrent callers. It is safe for concurrent use.
type reader struct {
	client  *api.Client
	timeout time.Duration

	jobs        *sharing.Group[*api.Job]                     // by namespace and id
	allocations *sharing.Group[map[jobGroup][]*Allocation]   // by namespace
	deployments *sharing.Group[map[string][]*api.Deployment] // by namespace; active ones by job
	summaries   *sharing.Group[*api.JobSummary]              // by namespace and id

	// turns bounds the concurrent reads of statistics.
	turns chan struct{}

	mu     sync.Mutex
	absent map[string]time.Time // nodes whose statistics are skipped until then; guarded by mu
	wrote  map[string]time.Time // when a count of a job was last written, by its key; guarded by mu
}

func newReader(client *api.Client, timeout time.Duration, concurrency int) *reader {
	return &reader{
		client: client, timeout: timeout, turns: make(chan struct{}, concurrency), absent: map[string]time.Time{}, wrote: map[string]time.Time{},
		jobs: sharing.New[*api.Job](reuse), allocations: sharing.New[map[jobGroup][]*Allocation](reuse), deployments: sharing.New[map[string][]*api.Deployment](reuse),
		summaries: sharing.New[*api.JobSummary](reuse),
	}
}

type jobGroup struct{ job, group string }

func (r *reader) options(ctx context.Context, namespace string) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: namespace}).WithContext(ctx)
}

// job reads a job; nil: it does not exist.
func (r *reader) job(ctx context.Context, g Group) (*api.Job, error) {
	job, _, err := r.jobs.GetSince(ctx, jobKey(g), r.lastWrite(g), r.timeout, func(ctx context.Context) (*api.Job, error) {
		job, _, err := r.client.Jobs().Info(g.Job, r.options(ctx, g.Namespace))
		if statusOf(err) == http.StatusNotFound {
			return nil, nil //nolint:nilnil // documented
		}
		if err != nil {
			return nil, denied("job", "read-job", err)
		}
		return job, nil
	})
	return job, err
}

func jobKey(g Group) string { return g.Namespace + "\x00" + g.Job }

// written drops the cached reads of a job, so that the next request for that job reads again.
// Other jobs of its namespace may keep using the lists read before.
func (r *reader) written(g Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	// By then an earlier read is complete, and no longer reused.
	maps.DeleteFunc(r.wrote, func(_ string, at time.Time) bool { return now.Sub(at) > r.timeout+reuse })
	r.wrote[jobKey(g)] = now
}

// lastWrite is when a count of the job was last written, zero: not recently.
func (r *reader) lastWrite(g Group) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrote[jobKey(g)]
}

// groupAllocations reads the allocations of a group.
func (r *reader) groupAllocations(ctx context.Context, g Group) ([]*Allocation, error) {
	all, _, err := r.allocations.GetSince(ctx, g.Namespace, r.lastWrite(g), r.timeout, func(ctx context.Context) (map[jobGroup][]*Allocation, error) {
		out := map[jobGroup][]*Allocation{}
		options := r.options(ctx, g.Namespace)
		options.Filter, options.PerPage, options.Params = liveAllocations, pageSize, map[string]string{"resources": "true"}
		err := pages(options, func() (*api.QueryMeta, error) {
			var page []*Allocation
			meta, err := r.client.Raw().Query("/v1/allocations", &page, options)
			for _, a := range page {
				if a != nil {
					at := jobGroup{a.JobID, a.TaskGroup}
					out[at] = append(out[at], a)
				}
			}
			return meta, err
		})
		return out, err
	})
	if err != nil {
		return nil, denied("allocations", "read-job", err)
	}
	return all[jobGroup{g.Job, g.Name}], nil
}

// queued reads how many allocations of a group Nomad could not place.
func (r *reader) queued(ctx context.Context, g Group) (int, error) {
	summary, _, err := r.summaries.GetSince(ctx, jobKey(g), r.lastWrite(g), r.timeout, func(ctx context.Context) (*api.JobSummary, error) {
		summary, _, err := r.client.Jobs().Summary(g.Job, r.options(ctx, g.Namespace))
		return summary, err
	})
	if err != nil {
		return 0, denied("summary", "read-job", err)
	}
	return summary.Summary[g.Name].Queued, nil
}

// activeDeployments reads the active deployments of a job, usually one.
func (r *reader) activeDeployments(ctx context.Context, g Group) ([]*api.Deployment, error) {
	all, _, err := r.deployments.GetSince(ctx, g.Namespace, r.lastWrite(g), r.timeout, func(ctx context.Context) (map[string][]*api.Deployment, error) {
		out := map[string][]*api.Deployment{}
		options := r.options(ctx, g.Namespace)
		options.Filter, options.PerPage = activeDeployments, pageSize
		err := pages(options, func() (*api.QueryMeta, error) {
			page, meta, err := r.client.Deployments().List(options)
			for _, d := range page {
				if d != nil {
					out[d.JobID] = append(out[d.JobID], d)
				}
			}
			return meta, err
		})
		return out, err
	})
	if err != nil {
		return nil, denied("deployments", "read-job", err)
	}
	return all[g.Job], nil
}

// pages reads all pages of a list.
func pages(options *api.QueryOptions, read func() (*api.QueryMeta, error)) error {
	for range maxPages {
		meta, err := read()
		if err != nil {
			return err
		}
		if meta.NextToken == "" {
			return nil
		}
		options.NextToken = meta.NextToken
	}
	return fmt.Errorf("the list has more than %d entries", maxPages*pageSize)
}

// The timeout of a read of statistics, from when it has a connection, and how long a node that
// did not answer is skipped.
const (
	statisticsTimeout = 5 * time.Second
	absentFor         = 30 * time.Second
)

// usage reads the samples of running allocations, in their order. It omits allocations without
// a sample. The error explains why there are no samples at all although there are allocations. All of it
// takes at most the timeout of a read, so that time is left to ask the service.
func (r *reader) usage(ctx context.Context, namespace string, allocations []*Allocation) ([]*setpointv1.PodMetrics, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, errLate)
	defer cancel()
	samples, failures := make([]*setpointv1.PodMetrics, len(allocations)), make([]error, len(allocations))
	var reading sync.WaitGroup
	for i, a := range allocations {
		if !a.counts() || a.ClientStatus != clientRunning {
			continue
		}
		select {
		case r.turns <- struct{}{}:
		case <-ctx.Done():
			failures[i] = context.Cause(ctx)
			continue
		}
		reading.Go(func() {
			defer func() { <-r.turns }()
			statistics, err := r.statistics(ctx, namespace, a)
			if err != nil {
				failures[i] = err
				return
			}
			if samples[i] = Usage(a, statistics); samples[i] == nil && statistics != nil && statistics.Timestamp == 0 && a.older(unmeasured) {
				failures[i] = errUnpublished
			}
		})
	}
	reading.Wait()
	out := slices.DeleteFunc(samples, func(m *setpointv1.PodMetrics) bool { return m == nil })
	failed := slices.IndexFunc(failures, func(err error) bool { return err != nil })
	if len(out) > 0 || failed < 0 {
		return out, nil
	}
	return nil, fmt.Errorf("statistics of allocation %s: %w", allocations[failed].ID, failures[failed])
}

var (
	// errAbsent means that the node's statistics failed a moment ago.
	errAbsent = errors.New("its node does not answer")
	// errSlow means that a node did not answer in time, and errNoConnection that the request
	// was not sent: all connections to Nomad were in use, or none could be opened.
	errSlow         = fmt.Errorf("its node does not answer within %s", statisticsTimeout)
	errNoConnection = fmt.Errorf("no connection to Nomad was free within %s", statisticsTimeout)
	// errLate means that others had not been read when the time was up.
	errLate = errors.New("there was no time left to read them, for nodes or Nomad are slow")
	// errUnpublished means that a client has no statistics of a task that has run for long.
	errUnpublished = errors.New("its client has none: the agents of Nomad's clients need telemetry { publish_allocation_metrics = true }")
)

// statistics reads those of one allocation; nil: there are none, because its node or the
// allocation itself is gone.
func (r *reader) statistics(ctx context.Context, namespace string, a *Allocation) (*api.AllocResourceUsage, error) {
	r.mu.Lock()
	absent := time.Now().Before(r.absent[a.NodeID])
	r.mu.Unlock()
	if absent {
		return nil, errAbsent
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Waiting for a connection is not the node's fault.
	var connected atomic.Bool
	timer := time.AfterFunc(statisticsTimeout, func() {
		if connected.Load() {
			cancel(errSlow)
		} else {
			cancel(errNoConnection)
		}
	})
	defer timer.Stop()
	asked := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		connected.Store(true)
		timer.Reset(statisticsTimeout)
	}})
	var out api.AllocResourceUsage
	_, err := r.client.Raw().Query("/v1/client/allocation/"+url.PathEscape(a.ID)+"/stats", &out, r.options(asked, namespace))
	switch status := statusOf(err); {
	case err == nil:
		return &out, nil
	case status == http.StatusNotFound:
		return nil, nil //nolint:nilnil // documented
	case errors.Is(context.Cause(ctx), errNoConnection), errors.Is(context.Cause(ctx), errLate):
		return nil, context.Cause(ctx)
	case status == 0 && errors.Is(context.Cause(ctx), errSlow):
		// Nomad's servers would hang on this node for its next allocation, too.
		r.mu.Lock()
		defer r.mu.Unlock()
		now := time.Now()
		maps.DeleteFunc(r.absent, func(_ string, until time.Time) bool { return now.After(until) })
		r.absent[a.NodeID] = now.Add(absentFor)
		return nil, errSlow
	}
	return nil, err
}

// denied says what was refused or failed, and the capability that a refusal is for. Nomad answers
// alike if there is no such token.
func denied(what, capability string, err error) error {
	if statusOf(err) == http.StatusForbidden {
		return fmt.Errorf("%s: the token is not valid, or lacks the capability %s: %w", what, capability, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// statusOf is the status of an error answer, 0: there was no answer.
func statusOf(err error) int {
	if refused, ok := errors.AsType[api.UnexpectedResponseError](err); ok {
		return refused.StatusCode()
	}
	return 0
}
