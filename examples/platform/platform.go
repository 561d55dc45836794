package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
)

// pool is pool.json: a pool of processes that work off the files in the folder jobs beside it. The
// file workers has how many processes there are to be.
type pool struct {
	ID      string          `json:"id"` // another one for a pool that is made anew
	Command []string        `json:"command"`
	Shadow  bool            `json:"shadow"`
	Spec    json.RawMessage `json:"spec"` // of autoscaling/v2
}

// platform is the adapter: the pools of a folder, each a folder of its own. It implements
// agent.Watched.
type platform struct{ folder string }

// read reads a pool, and its text as the revision of its settings.
func (p platform) read(name string) (pool, agent.Version, error) {
	var read pool
	text, err := os.ReadFile(filepath.Join(p.folder, name, "pool.json"))
	if err != nil {
		return read, "", err
	}
	return read, agent.Version(text), json.Unmarshal(text, &read)
}

// workers is how many processes there are to be.
func (p platform) workers(name string) (int32, error) {
	text, err := os.ReadFile(filepath.Join(p.folder, name, "workers"))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	return int32(n), err
}

// Object implements agent.Platform.
func (p platform) Object(_ context.Context, key agent.Key, _ *agent.Object) (*agent.Object, error) {
	read, version, err := p.read(key.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, agent.ErrGone
	}
	if err != nil { // who it is can't be told: with another UID it would be another object, without the history
		return nil, fmt.Errorf("pool.json: %w", err)
	}
	spec := &setpointv1.HorizontalPodAutoscalerSpec{}
	o := &agent.Object{Key: key, UID: read.ID, Shadow: read.Shadow, Spec: spec, Revision: version}
	if err := protojson.Unmarshal(read.Spec, spec); err != nil { // the author's to mend
		o.Hold = &agent.Hold{Reason: agent.ReasonInvalidObject, Message: "pool.json: " + err.Error()}
	}
	spec.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{ApiVersion: "example/v1", Kind: key.Kind, Name: key.Name}
	return o, nil
}

// Observe implements agent.Platform. The metric jobs is the number of files that wait.
func (p platform) Observe(_ context.Context, o *agent.Object) (*agent.Observation, error) {
	workers, err := p.workers(o.Key.Name)
	if err != nil {
		return nil, err
	}
	request := &setpointv1.RecommendRequest{
		Spec:  o.Spec,
		Scale: &setpointv1.Scale{SpecReplicas: workers, StatusReplicas: &workers},
	}
	jobs, err := os.ReadDir(filepath.Join(p.folder, o.Key.Name, "jobs"))
	if err != nil { // no reason not to decide: the other metrics, if there are any, count
		request.MetricErrors = []*setpointv1.MetricError{{Metric: "External:jobs", Message: err.Error()}}
	} else {
		request.ExternalMetrics = []*setpointv1.ExternalMetric{{
			Metric: &setpointv1.MetricIdentifier{Name: "jobs"}, Value: strconv.Itoa(len(jobs)),
		}}
	}
	return &agent.Observation{Request: request, InCharge: &shadow.Side{Replicas: workers}, Against: "the file workers"}, nil
}

// Apply implements agent.Platform. A count that somebody wrote meanwhile stays.
func (p platform) Apply(_ context.Context, o *agent.Object, _ *agent.Observation, change agent.Change) error {
	switch now, err := p.workers(o.Key.Name); {
	case err != nil:
		return err
	case now != change.From:
		return agent.ErrMoved
	}
	return os.WriteFile(filepath.Join(p.folder, o.Key.Name, "workers"), fmt.Appendln(nil, change.To), 0o600)
}

// Watch implements agent.Watched: it looks at the folder every two seconds.
func (p platform) Watch(ctx context.Context, changed func(agent.Key)) error {
	known := map[string]agent.Version{}
	for {
		found, err := filepath.Glob(filepath.Join(p.folder, "*", "pool.json"))
		if err != nil {
			return err
		}
		there := map[string]agent.Version{}
		for _, file := range found {
			name := filepath.Base(filepath.Dir(file))
			_, there[name], _ = p.read(name)
			if known[name] != there[name] {
				changed(keyOf(name))
			}
		}
		for name := range known {
			if _, still := there[name]; !still {
				changed(keyOf(name))
			}
		}
		known = there
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
		}
	}
}

func keyOf(name string) agent.Key {
	return agent.Key{Kind: "Pool", Namespace: "default", Name: name}
}
