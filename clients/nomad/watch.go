package nomad

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// watchWait is how long a blocking query waits. Restoring a snapshot does not wake a waiting
// query, so this bounds how long the agent acts on outdated policies.
const watchWait = 30 * time.Second

// watchTimeout bounds a blocking query. Nomad adds up to a sixteenth to the wait; after that
// the connection counts as lost, which the network may not report.
const watchTimeout = watchWait + watchWait/16 + 10*time.Second

// watchPause is the minimum time between two queries, because a query may return without a change
// again and again.
const watchPause = 100 * time.Millisecond

// errNoRight means that the token sees nothing at all.
var errNoRight = errors.New("there is no token, or it lacks the capability list-scaling-policies on every namespace")

// Watch implements agent.Watched: it notifies about each group with a scaling policy, whether
// it is Setpoint's or not. Without any capability a list may be empty, so it reads each policy
// that is no longer listed: only one that does not exist is gone.
func (p *Platform) Watch(ctx context.Context, changed func(agent.Key)) error {
	query := &api.QueryOptions{Namespace: p.options.Namespace, WaitTime: watchWait}
	p.mu.Lock()
	for key := range p.groups {
		changed(key)
	}
	p.mu.Unlock()
	for first := true; ; first = false {
		began := time.Now()
		policies, meta, err := p.list(ctx, query)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return denied("list scaling policies", "list-scaling-policies", err)
		}
		if len(policies) == 0 && meta.LastIndex == 0 {
			// Without any capability the list of all namespaces is no error, but has no index.
			return fmt.Errorf("list scaling policies: %w", errNoRight)
		}
		if first && len(policies) == 0 {
			p.options.Log.Warn("no scaling policy is listed: none exists, or the token lacks the capability list-scaling-policies", zap.String("namespace", p.options.Namespace))
		}
		vanished := p.note(policies, changed)
		if err := p.confirm(ctx, vanished, changed); err != nil {
			return err
		}
		p.checkVersion(ctx)
		// After a restore or a restart the index is lower. Wait with that one: with the higher
		// old one the query would sleep through changes.
		query.WaitIndex = max(meta.LastIndex, 1)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchPause - time.Since(began)):
		}
	}
}

// list does one query.
func (p *Platform) list(ctx context.Context, query *api.QueryOptions) ([]*api.ScalingPolicyListStub, *api.QueryMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	return p.client.Scaling().ListPolicies(query.WithContext(ctx))
}

// note notifies about groups that changed since the last list, and returns those that vanished
// from it.
func (p *Platform) note(policies []*api.ScalingPolicyListStub, changed func(agent.Key)) map[agent.Key]*listed {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = true
	there := map[agent.Key]bool{}
	for _, stub := range policies {
		if stub == nil || stub.Type != "" && stub.Type != api.ScalingPolicyTypeHorizontal {
			continue
		}
		g := groupOfTarget(stub.Target)
		key, now := KeyOf(g), policyVersion{stub.ModifyIndex, stub.Enabled}
		there[key] = true
		if was := p.groups[key]; was == nil || was.policy != stub.ID || was.version != now {
			p.groups[key] = &listed{group: g, policy: stub.ID, version: now}
			changed(key)
		}
	}
	vanished := map[agent.Key]*listed{}
	for key, l := range p.groups {
		if !there[key] {
			vanished[key] = l
		}
	}
	return vanished
}

// confirm notifies about groups whose policies are deleted, or are another group's now: a job that
// a periodic or parameterized job starts takes over the ids of its policies. The error says that
// a group is no longer visible, though it may exist; all others are confirmed nevertheless.
func (p *Platform) confirm(ctx context.Context, vanished map[agent.Key]*listed, changed func(agent.Key)) error {
	var unclear error
	for key, l := range vanished {
		err := p.confirmGone(ctx, l)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			unclear = err
			continue
		}
		p.mu.Lock()
		delete(p.groups, key)
		p.mu.Unlock()
		changed(key)
	}
	return unclear
}

// confirmGone returns nil if the group that is no longer listed has no policy.
func (p *Platform) confirmGone(ctx context.Context, l *listed) error {
	p.mu.Lock()
	wants := l.wants
	p.mu.Unlock()
	if wants != nil && wants.Policy == nil && wants.hold == nil {
		return nil // it never was Setpoint's
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.ReadTimeout)
	defer cancel()
	scaling, err := p.policy(ctx, l)
	group := fmt.Sprintf("group %s of job %s in namespace %s is no longer listed", l.group.Name, l.group.Job, l.group.Namespace)
	switch {
	case errors.Is(err, agent.ErrGone):
		return nil
	case err != nil:
		return fmt.Errorf("%s, and reading its policy failed: %w", group, err)
	case groupOfTarget(scaling.Target) != l.group:
		return nil
	}
	// It exists: the list came from a server that is behind, or the token lost its capability.
	return fmt.Errorf("%s, though its policy exists: the token may have lost the capability list-scaling-policies", group)
}

// groupOfTarget is the group that a policy is about.
func groupOfTarget(target map[string]string) Group {
	return Group{target["Namespace"], target["Job"], target["Group"]}
}
