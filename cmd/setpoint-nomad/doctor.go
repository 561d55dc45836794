package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// Names of checks that others come after.
const (
	nomadCheck  = "nomad"
	rightsCheck = "rights"
)

// most bounds how many of a kind are looked at.
const most = 20

// patient looks at a Nomad region for the command doctor.
type patient struct {
	client    *api.Client
	platform  *nomad.Platform
	namespace string
	region    string
	shadow    bool
	groups    []nomad.Group  // of Setpoint's, as far as they were read
	asks      []agentcmd.Ask // about those that are to be scaled and can be
}

func (p *patient) checks() []doctor.Check {
	return []doctor.Check{
		{Name: nomadCheck, Run: p.reachable},
		{Name: rightsCheck, After: nomadCheck, Run: p.rights},
		{Name: "policies", After: rightsCheck, Run: p.policies},
		{Name: "statistics", After: rightsCheck, Run: p.statistics},
	}
}

func (p *patient) options(ctx context.Context, namespace string) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: namespace}).WithContext(ctx)
}

func (p *patient) reachable(ctx context.Context) []doctor.Finding {
	var leader string
	if _, err := p.client.Raw().Query("/v1/status/leader", &leader, p.options(ctx, "")); err != nil {
		return doctor.Bad("correct --nomad-address and the files of --nomad-tls-…; is Nomad running?", "%s does not answer: %v", p.client.Address(), err)
	}
	out := doctor.Good("%s answers; the leader is %s", p.client.Address(), leader)
	if warning, err := nomad.OldServers(ctx, p.client, p.region); err == nil && warning != "" {
		out = append(out, doctor.Notice("update the servers, or let nobody else write counts", "%s", warning)...)
	}
	return out
}

// rights asks for what is not there: Nomad checks rights before it looks.
func (p *patient) rights(ctx context.Context) []doctor.Finding {
	namespaces := []string{p.namespace}
	all, _, err := p.client.Namespaces().List(p.options(ctx, ""))
	var out []doctor.Finding
	switch {
	case p.namespace != "*":
		if len(all) > 0 && !slices.ContainsFunc(all, func(n *api.Namespace) bool { return n.Name == p.namespace }) {
			return doctor.Bad("correct --nomad-namespace, or "+tokenRemedy, "there is no namespace %s, or the token may not see it", p.namespace)
		}
	case err != nil || len(all) == 0:
		return doctor.Bad(tokenRemedy, "the token sees no namespace: %v", err)
	default:
		namespaces = nil
		for _, n := range all[:min(len(all), most)] {
			namespaces = append(namespaces, n.Name)
		}
		if left := len(all) - len(namespaces); left > 0 {
			out = doctor.Notice("look at others with --nomad-namespace", "the rights in %d more namespaces were not looked at", left)
		}
	}
	const absent = "00000000-0000-0000-0000-000000000000"
	needed := []struct {
		capability string
		try        func(namespace string) error
	}{
		{"list-scaling-policies", func(namespace string) error {
			_, _, err := p.client.Scaling().ListPolicies(p.options(ctx, namespace))
			return err
		}},
		{"read-scaling-policy", func(namespace string) error {
			_, _, err := p.client.Scaling().GetPolicy(absent, p.options(ctx, namespace))
			return err
		}},
		{"read-job", func(namespace string) error {
			_, _, err := p.client.Jobs().Info(absent, p.options(ctx, namespace))
			return err
		}},
		{"scale-job", func(namespace string) error {
			if p.shadow {
				return nil
			}
			_, err := nomad.Scale(ctx, p.client, nomad.Group{Namespace: namespace, Job: absent, Name: "absent"}, nomad.Scaling{Count: new(int64)})
			return err
		}},
	}
	granted, lacking := []string{}, map[string][]string{} // namespaces, the latter by what is missing
	for _, namespace := range namespaces {
		var missing []string
		for _, n := range needed {
			err, status := n.try(namespace), 0
			if refused, ok := errors.AsType[api.UnexpectedResponseError](err); ok {
				status = refused.StatusCode()
			}
			switch {
			case err == nil, errors.Is(err, agent.ErrGone), status == http.StatusNotFound:
			case status == http.StatusForbidden:
				missing = append(missing, n.capability)
			default:
				return append(out, doctor.Bad("look into the log of Nomad's servers", "namespace %s: %s can't be checked: %v", namespace, n.capability, err)...)
			}
		}
		switch {
		case len(missing) == 0:
			granted = append(granted, namespace)
		case p.namespace == "*" && len(missing) == len(needed):
			out = append(out, doctor.Notice("", "namespace %s: the token has none of the capabilities, so its groups are not scaled", namespace)...)
		default:
			what := strings.Join(missing, ", ")
			lacking[what] = append(lacking[what], namespace)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(lacking)) {
		out = append(out, doctor.Bad(tokenRemedy, "the token lacks %s in %s", what, strings.Join(lacking[what], ", "))...)
	}
	switch {
	case len(granted) > 0:
	case len(lacking) > 0:
		return out
	default:
		return append(out, doctor.Bad(tokenRemedy, "the token may scale in no namespace")...)
	}
	return append(doctor.Good("the token has what is needed in %s", strings.Join(granted, ", ")), out...)
}

const tokenRemedy = "give the token the policy deploy/nomad/agent.policy.hcl: nomad acl policy apply, nomad acl token create"

func (p *patient) policies(ctx context.Context) []doctor.Finding {
	listed, _, err := p.client.Scaling().ListPolicies(p.options(ctx, p.namespace))
	if err != nil {
		return doctor.Bad(tokenRemedy, "the scaling policies can't be listed: %v", err)
	}
	var out []doctor.Finding
	for _, stub := range listed {
		g := nomad.Group{Namespace: stub.Target["Namespace"], Job: stub.Target["Job"], Name: stub.Target["Group"]}
		policy, _, err := p.client.Scaling().GetPolicy(stub.ID, p.options(ctx, g.Namespace))
		if err != nil {
			continue // it was deleted meanwhile
		}
		settings, hold := p.platform.Read(g, policy)
		at := fmt.Sprintf("group %s of job %s in namespace %s", g.Name, g.Job, g.Namespace)
		if settings == nil && hold == nil {
			for key := range policy.Policy {
				if _, like := spelling.Closest(key, []string{nomad.Key}); like && key != nomad.Key {
					out = append(out, doctor.Bad("correct the job file, and run the job", "%s: the policy has a block %s, which nobody reads: did you mean %s?", at, key, nomad.Key)...)
				}
			}
			continue
		}
		p.groups = append(p.groups, g)
		if job, _, err := p.client.Jobs().Info(g.Job, p.options(ctx, g.Namespace)); hold == nil && err == nil {
			hold = nomad.Unscalable(job)
		}
		if hold == nil {
			p.asks = append(p.asks, agentcmd.Ask{Key: nomad.KeyOf(g), Request: &setpointv1.RecommendRequest{
				Spec: settings.Spec, Options: settings.Options, Stages: settings.Stages, Fleet: settings.Fleet,
			}})
		}
		switch {
		case hold != nil:
			out = append(out, doctor.Bad("correct the job file, and run the job", "%s: %s: %s", at, hold.Reason, hold.Message)...)
		case len(settings.Ignored) > 0:
			out = append(out, doctor.Notice("delete them", "%s: the policy has keys that mean nothing to Setpoint: %s", at, strings.Join(settings.Ignored, ", "))...)
		}
	}
	if len(p.groups) == 0 {
		return append(doctor.Notice("add a block setpoint to the policy of a group's scaling block", "%d groups have a scaling policy, none with a block %s", len(listed), nomad.Key), out...)
	}
	return append(doctor.Good("%d groups have a block %s", len(p.groups), nomad.Key), out...)
}

// youngest is how long a task must have run to be judged by its statistics.
const youngest = 20 * time.Second

func (p *patient) statistics(ctx context.Context) []doctor.Finding {
	var empty, good, failed []string // nodes
	for _, g := range p.groups {
		allocations, _, err := p.client.Jobs().Allocations(g.Job, false, p.options(ctx, g.Namespace))
		if err != nil {
			continue
		}
		for _, a := range allocations {
			known := slices.Contains(empty, a.NodeName) || slices.Contains(good, a.NodeName) || slices.Contains(failed, a.NodeName)
			if known || a.TaskGroup != g.Name || a.ClientStatus != "running" || time.Since(time.Unix(0, a.CreateTime)) < youngest || len(good)+len(empty)+len(failed) >= most {
				continue
			}
			var read api.AllocResourceUsage
			switch _, err := p.client.Raw().Query("/v1/client/allocation/"+a.ID+"/stats", &read, p.options(ctx, g.Namespace)); {
			case err != nil:
				failed = append(failed, a.NodeName)
			case read.Timestamp == 0:
				empty = append(empty, a.NodeName)
			default:
				good = append(good, a.NodeName)
			}
		}
	}
	var out []doctor.Finding
	if len(good) > 0 {
		out = doctor.Good("%d clients have statistics", len(good))
	}
	if len(empty) > 0 {
		out = append(out, doctor.Bad("set telemetry { publish_allocation_metrics = true } in the agents of Nomad's clients, for groups that scale on cpu or memory",
			"there are no statistics on %s", strings.Join(empty, ", "))...)
	}
	if len(failed) > 0 {
		out = append(out, doctor.Bad("is the client up? nomad node status", "statistics can't be read from %s", strings.Join(failed, ", "))...)
	}
	if out == nil {
		return doctor.Notice("", "no allocation has run for %s, so statistics were not read", youngest)
	}
	return out
}
