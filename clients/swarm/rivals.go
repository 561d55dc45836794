package swarm

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"
)

// rivalsEvery is the time between two looks for other agents in the swarm.
const rivalsEvery = 5 * time.Minute

// All returns all services.
func (e *Engine) All(ctx context.Context) ([]swarm.Service, error) {
	e.asked(callList)
	found, err := e.api.ServiceList(ctx, client.ServiceListOptions{})
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
	return fmt.Sprintf("%d agents run in this swarm (%s), and each undoes the counts of the other: keep one", tasks, bounded(strings.Join(names, ", "), maxMessage))
}

// agents is how many agents a service wants to run that are not shadows.
func agents(s *swarm.Service) int {
	c := s.Spec.TaskTemplate.ContainerSpec
	if c == nil {
		return 0
	}
	words := slices.Concat(c.Command, c.Args)
	at := slices.Index(words, "agent")
	program := slices.ContainsFunc(words, func(word string) bool { return path.Base(word) == "setpoint-swarm" })
	shadow := slices.Contains(words, "--shadow") || slices.Contains(c.Env, "SETPOINT_SHADOW=true")
	if at < 0 || shadow || !program && (at+1 == len(words) || words[at+1] != "swarm") {
		return 0
	}
	if r := s.Spec.Mode.Replicated; r != nil && r.Replicas != nil {
		return int(min(*r.Replicas, 1000))
	}
	return 1
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
