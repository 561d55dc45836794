package swarm

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// rivalsEvery is the time between two looks for other agents in the swarm.
const rivalsEvery = 5 * time.Minute

// All returns all services.
func (e *Engine) All(ctx context.Context) ([]swarm.Service, error) {
	explain := e.asked(callList)
	found, err := e.api.Load().ServiceList(ctx, client.ServiceListOptions{})
	return found.Items, explain(err)
}

// Rivals says that these services are more than one agent that acts, whatever the names of their
// clusters; empty: they are not.
func Rivals(services []swarm.Service) string {
	var names []string
	tasks := 0
	for i := range services {
		s := &services[i]
		if n := agents(s); n > 0 {
			names, tasks = append(names, s.Spec.Name), tasks+n
		}
	}
	if tasks < 2 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("%d agents run in this swarm (%s), and each undoes the counts of the other: keep one", tasks, agent.Shorten(strings.Join(names, ", ")))
}

// agents is how many agents a service wants to run that are not shadows.
func agents(s *swarm.Service) int {
	words, program := words(s)
	at := slices.Index(words, "agent")
	if at < 0 || !program && (at+1 == len(words) || words[at+1] != "swarm") {
		return 0
	}
	if slices.Contains(words, "--shadow") || slices.ContainsFunc(slices.Concat(words, s.Spec.TaskTemplate.ContainerSpec.Env), isShadow) {
		return 0
	}
	if r := s.Spec.Mode.Replicated; r != nil && r.Replicas != nil {
		return int(min(*r.Replicas, 1000))
	}
	return 1
}

// isShadow reports whether an argument or a variable makes an agent a shadow.
func isShadow(setting string) bool {
	name, value, _ := strings.Cut(setting, "=")
	shadow, _ := strconv.ParseBool(value)
	return shadow && (name == "--shadow" || name == "SETPOINT_SHADOW")
}

// words are those of a service's command, and program reports whether it is setpoint-swarm.
func words(s *swarm.Service) (words []string, program bool) {
	c := s.Spec.TaskTemplate.ContainerSpec
	if c == nil {
		return nil, false
	}
	words = slices.Concat(c.Command, c.Args)
	return words, slices.ContainsFunc(words, func(word string) bool { return path.Base(word) == "setpoint-swarm" })
}

// Unreported returns the nodes that tasks may run on, and on which no task of a service runs
// setpoint-swarm node. found: one of these services runs it.
func (e *Engine) Unreported(ctx context.Context, services []swarm.Service) (missing []string, found bool, err error) {
	reporting := map[string]bool{}
	for i := range services {
		if words, program := words(&services[i]); !program || !slices.Contains(words, "node") {
			continue
		}
		found = true
		tasks, err := e.tasks(ctx, services[i].ID)
		if err != nil {
			return nil, false, err
		}
		for i := range tasks {
			if tasks[i].Status.State == swarm.TaskStateRunning {
				reporting[tasks[i].NodeID] = true
			}
		}
	}
	if !found {
		return nil, false, nil
	}
	explain := e.asked(callNodes)
	nodes, err := e.api.Load().NodeList(ctx, client.NodeListOptions{})
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if n.Status.State == swarm.NodeStateReady && n.Spec.Availability != swarm.NodeAvailabilityDrain && !reporting[n.ID] {
			missing = append(missing, n.Description.Hostname)
		}
	}
	return missing, true, explain(err)
}

// Problem says that other agents run in the swarm; empty: none was seen.
func (p *Platform) Problem() string {
	if seen := p.rivals.Load(); seen != nil {
		return *seen
	}
	return ""
}

// lookForRivals looks again if it is time.
func (p *Platform) lookForRivals(ctx context.Context, last time.Time) time.Time {
	if !last.IsZero() && time.Since(last) < rivalsEvery {
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	if services, err := p.engine.All(ctx); err == nil {
		p.rivals.Store(new(Rivals(services)))
	}
	return time.Now()
}
