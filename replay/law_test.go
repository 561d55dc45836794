package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// withEmptyStages is a backend that is asked with stages of which none is set.
type withEmptyStages struct{ Backend }

func (b withEmptyStages) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	staged := proto.CloneOf(req)
	staged.Stages = &setpointv1.Stages{}
	return b.Backend.Recommend(ctx, staged)
}

// both is an engine that is asked twice, without stages and with empty ones.
type both struct {
	*Engine
	t      *testing.T
	staged *Engine
	bytes  []byte
}

func (b *both) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	resp, err := b.Engine.Recommend(ctx, req)
	staged, stagedErr := withEmptyStages{b.staged}.Recommend(ctx, req)
	if err != nil || stagedErr != nil {
		return resp, err
	}
	if staged.PlainDesiredReplicas == nil || staged.GetPlainDesiredReplicas() != staged.GetDesiredReplicas() || len(staged.GetAdjustments()) > 0 {
		b.t.Errorf("empty stages tell %v of %d", staged.GetAdjustments(), staged.GetDesiredReplicas())
	}
	if staged.PlainDesiredReplicas = nil; !proto.Equal(resp, staged) {
		b.t.Errorf("with empty stages\n%v\nwithout\n%v", staged, resp)
	}
	history := b.histories[req.GetTarget()]
	if !bytes.Equal(history, b.staged.histories[req.GetTarget()]) {
		b.t.Errorf("%s: another history with empty stages", req.GetTarget())
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(resp)
	b.bytes = append(append(b.bytes, encoded...), history...)
	return resp, err
}

func (b *both) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	if _, err := b.staged.ReportScale(ctx, req); err != nil {
		return nil, err
	}
	return b.Engine.ReportScale(ctx, req)
}

func (b *both) Delete(ctx context.Context, target string) error {
	if err := b.staged.Delete(ctx, target); err != nil {
		return err
	}
	return b.Engine.Delete(ctx, target)
}

// answers are the bytes of all answers and histories of the recordings, as they were before there were
// stages.
var answers = map[string]string{
	"curated": "edb40e676774c2d7", "fuzz": "a698c2c5551aa625", "v1.37": "9f450551740228f1",
	"v1.28": "7fb2ba7808bec480", "v1.19": "e579b96c5b1b38f8", "v1.15": "0189efd68c902539",
}

// The law: without stages every byte is what it was, and stages of which none is set decide the same.
func TestWithoutStagesNothingIsAnother(t *testing.T) {
	t.Parallel()
	for _, file := range recorded {
		t.Run(file.name, func(t *testing.T) {
			t.Parallel()
			backend := &both{Engine: NewEngine(), t: t, staged: NewEngine()}
			runner := NewRunner(backend, Options{})
			hash := sha256.New()
			for scenario := range scenarios(t, file.name) {
				if err := runner.Run(t.Context(), scenario, func(*Step) error { return nil }); err != nil {
					t.Error(err)
				}
				hash.Write(backend.bytes)
				backend.bytes = backend.bytes[:0]
			}
			if got := hex.EncodeToString(hash.Sum(nil)[:8]); got != answers[file.name] {
				t.Errorf("the answers are %s, before there were stages %q", got, answers[file.name])
			}
		})
	}
}
