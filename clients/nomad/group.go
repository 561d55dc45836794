package nomad

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Group names a task group.
type Group struct{ Namespace, Job, Name string }

// ErrDeploying says that a count was refused because a deployment of the job is active: it is to
// be waited for.
var ErrDeploying = errors.New("a deployment of the job is active")

// Texts by which Nomad's refusals are known: it has no codes for them.
const (
	conflictText  = "Enforcing job modify index"
	deployingText = "job scaling blocked due to active deployment"
)

// Scaling is what is written for a task group.
type Scaling struct {
	// Count is the new count. Nil: only an event is recorded, as for a shadow.
	Count *int64
	// JobModifyIndex is that of GET /v1/job/:id, which the count is conditional on: the scale
	// status calls another one so, which no count passes with. Not checked for events.
	JobModifyIndex uint64
	// Message and Meta are shown by nomad job scaling-events.
	Message string
	Meta    map[string]any
}

// Scale writes a count, or an event. The error is agent.ErrMoved if the job has changed since
// its JobModifyIndex was read, agent.ErrGone if there is no such job, and ErrDeploying.
func Scale(ctx context.Context, client *api.Client, g Group, s Scaling) error {
	_, _, err := client.Jobs().ScaleWithRequest(g.Job, &api.ScalingRequest{
		Count: s.Count, Target: map[string]string{"Job": g.Job, "Group": g.Name}, Message: s.Message, Meta: s.Meta, JobModifyIndex: s.JobModifyIndex,
	}, (&api.WriteOptions{Namespace: g.Namespace}).WithContext(ctx))
	var refused api.UnexpectedResponseError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		return err
	case refused.StatusCode() == http.StatusNotFound:
		return agent.ErrGone
	case strings.Contains(refused.Body(), conflictText):
		return agent.ErrMoved
	case strings.Contains(refused.Body(), deployingText):
		return ErrDeploying
	}
	return err
}

// watchWait is how long a blocking query waits. A query that waits while a snapshot is restored
// is not woken, so that this bounds how long the agent goes by policies that are no more.
const watchWait = 30 * time.Second

// Watch calls changed for each task group with a scaling policy in a namespace, "*" for all, and
// then for each whose policy comes, changes or goes, until the context ends. It returns earlier
// only if it failed. Without any right an empty list is all there is to see.
func Watch(ctx context.Context, client *api.Client, namespace string, changed func(Group)) error {
	type version struct {
		modified uint64
		enabled  bool
	}
	known := map[string]version{} // by id, which a policy has anew when its job was purged
	groups := map[string]Group{}
	query := (&api.QueryOptions{Namespace: namespace, WaitTime: watchWait}).WithContext(ctx)
	for {
		policies, meta, err := client.Scaling().ListPolicies(query)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list scaling policies: %w", err)
		}
		// What was listed before and is not now, is gone; a query may end with nothing new.
		listed := map[string]bool{}
		for _, p := range policies {
			listed[p.ID] = true
			if now := (version{p.ModifyIndex, p.Enabled}); known[p.ID] != now {
				known[p.ID] = now
				groups[p.ID] = Group{p.Target["Namespace"], p.Target["Job"], p.Target["Group"]}
				changed(groups[p.ID])
			}
		}
		for id, g := range groups {
			if !listed[id] {
				delete(known, id)
				delete(groups, id)
				changed(g)
			}
		}
		// After a restore or a restart the index is lower. It is what to wait with all the same:
		// with the higher one of before the query would sleep through changes.
		query.WaitIndex = max(meta.LastIndex, 1)
	}
}
