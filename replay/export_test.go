package replay

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// keeping is a service that keeps its targets, and counts their decisions.
type keeping struct {
	*Server
	asked map[string]int
}

func (k *keeping) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	resp, err := k.Server.Recommend(ctx, req)
	if err == nil {
		k.asked[req.GetTarget()]++
	}
	return resp, err
}

func (k *keeping) Delete(context.Context, string) error { return nil }

// Begin is of no use: histories of recordings are left out.
func (k *keeping) Begin(string, *recording.History) {}

// Override is of no use either.
func (k *keeping) Override(string, []stages.Override) {}

// chunksOf reads all chunks of a target.
func chunksOf(t *testing.T, log store.Log, key store.Key) (chunks [][]byte) {
	t.Helper()
	values, next, err := log.ReadLog(context.Background(), key, "", 10_000)
	if err != nil || next != "" {
		t.Fatal(err, next)
	}
	for _, value := range values {
		if _, sealed := decisionlog.ReadChunk(value); sealed != nil {
			chunks = append(chunks, sealed)
		}
	}
	return chunks
}

// TestExportsGiveEveryDecisionAgain asks the service as recorded controllers asked theirs, and replays what it
// keeps of that.
func TestExportsGiveEveryDecisionAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("plays hundreds of recordings")
	}
	engine := memory.New(memory.Options{})
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Engine, su.Log = engine, engine
		su.Options.Truth.Bytes, su.Options.Truth.Buffer = 1<<20, 1<<30
	})
	asks := &keeping{NewServer(s.Conn), map[string]int{}}
	targets := 0
	for _, name := range []string{"curated.jsonl.gz", "fuzz.jsonl.gz"} {
		f, err := os.Open("../clients/kubernetes/recording/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		played := 0
		for scenario, err := range recording.NewReader(name, f).All() {
			if err != nil {
				t.Fatal(err)
			}
			deleted := slices.ContainsFunc(scenario.Steps, func(s recording.Step) bool { return s.HPADeleted })
			if deleted || scenario.History != nil || played >= 200 {
				continue
			}
			played++
			runner := NewRunner(asks, Options{NoCompare: true, Cluster: fmt.Sprintf("c%d", targets)})
			if targets++; runner.Run(t.Context(), scenario, func(*Step) error { return nil }) != nil {
				continue // the service refuses more than the engine
			}
		}
	}
	s.StopAndWait(t)
	log := engine.Chunks(144, 24*time.Hour)
	replayed, differences, decisions, incomplete := 0, 0, 0, 0
	for _, target := range slices.Sorted(maps.Keys(asks.asked)) {
		out := Export(target, chunksOf(t, log, servertest.KeyOf(target)), time.Time{}, time.Time{})
		if out.Unreadable > 0 {
			t.Fatal(out.Unreadability)
		}
		if decisions += out.Steps; out.Steps != asks.asked[target] {
			if incomplete++; incomplete < 10 {
				t.Errorf("%s: %d of %d decisions, gaps %v", target, out.Steps, asks.asked[target], out.Gaps)
			}
		}
		replayed++
		for _, written := range out.Scenarios {
			scenario := reread(t, written)
			err := NewRunner(NewEngine(), Options{}).Run(t.Context(), scenario, func(step *Step) error {
				if !step.Compared {
					t.Errorf("%s: step %d has nothing to compare", target, step.Index)
				}
				if len(step.Differences) > 0 {
					if differences++; differences < 20 {
						t.Errorf("%s step %d: %v", target, step.Index, step.Differences)
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v", target, err)
			}
		}
	}
	t.Logf("%d targets, %d decisions, %d differences, %d incomplete", replayed, decisions, differences, incomplete)
	if replayed < 200 || differences+incomplete > 0 {
		t.Errorf("%d targets, %d differences, %d incomplete", replayed, differences, incomplete)
	}
}

// reread writes a scenario and reads it.
func reread(t *testing.T, scenario *recording.Scenario) *recording.Scenario {
	t.Helper()
	var file bytes.Buffer
	if err := recording.NewWriter(&file).Write(scenario); err != nil {
		t.Fatal(err)
	}
	again, err := recording.NewReader("export", &file).Next()
	if err != nil {
		t.Fatal(err)
	}
	return again
}
