package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/simulation"
)

// piecesOf is how many calls an agent writes at a time.
const piecesOf = 40

// inPieces is served, whose calls are in pieces, too, as an agent writes them: each with the history before it.
type inPieces struct {
	served
	whole  []recording.Call
	pieces []*recording.Scenario
	before json.RawMessage
	status *setpointv1.HorizontalPodAutoscalerStatus
}

func (s *inPieces) Recommend(now time.Time, in *recommender.Input) (recommender.Decision, error) {
	if len(s.calls) == piecesOf {
		if err := s.piece(); err != nil {
			return recommender.Decision{}, err
		}
	}
	return s.served.Recommend(now, in)
}

// piece ends one.
func (s *inPieces) piece() error {
	s.whole = append(s.whole, s.calls...)
	calls := slices.Clone(s.calls)
	if s.status != nil {
		request := map[string]json.RawMessage{}
		if err := json.Unmarshal(calls[0].Request, &request); err != nil {
			return err
		}
		request["previousStatus"] = s.json(s.status)
		var err error
		if calls[0].Request, err = json.Marshal(request); err != nil {
			return err
		}
	}
	s.pieces = append(s.pieces, &recording.Scenario{Name: fmt.Sprintf("shop/web %d", len(s.pieces)), Source: "agent", Before: s.before, Calls: calls})
	got, err := setpointv1.NewTargetServiceClient(s.conn).GetTarget(s.ctx, &setpointv1.GetTargetRequest{Name: s.target})
	if err != nil {
		return err
	}
	s.before, s.status, s.calls = s.json(got.GetTarget().GetHistory()), got.GetTarget().GetStatus(), nil
	return s.err
}

func encoded(t *testing.T, all ...*recording.Scenario) string {
	t.Helper()
	var out bytes.Buffer
	for _, s := range all {
		fatal.If(t, json.NewEncoder(&out).Encode(s))
	}
	return out.String()
}

// TestPiecesOfARecordingAreOne has a recording of three hours in one piece, and in those of ten minutes that agents write:
// another spec goes on from each to the next, and does not begin with the recorded count every ten minutes.
func TestPiecesOfARecordingAreOne(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	options := server.DefaultOptions()
	options.AllowEvaluationTime, options.Limits.Shedding.Off, options.RequestTimeout = true, true, 5*time.Minute
	conn := clitest.Dial(t, clitest.StartServerWith(t, options))
	w := &workloads[1]
	spec, err := hpa.ReadOne("spec.yaml", strings.NewReader(w.spec))
	fatal.If(t, err)
	a, err := spec.Engine(nil)
	fatal.If(t, err)
	kubernetes.Defaults(spec.Object)
	engine := &inPieces{served: served{ctx: t.Context(), conn: conn, target: "clusters/pieces/namespaces/shop/targets/web", spec: &spec.Object.Spec}}
	if _, err := simulation.RunWith(w.scenario(t), a, engine, nil); err != nil {
		t.Fatal(err)
	}
	if err := engine.piece(); err != nil || len(engine.pieces) != 720/piecesOf {
		t.Fatalf("%d pieces: %v", len(engine.pieces), err)
	}
	whole, pieces := encoded(t, &recording.Scenario{Name: "shop/web", Calls: engine.whole}), encoded(t, engine.pieces...)
	for i := range w.edits {
		now := w.edits[i].of(w.spec)
		one, many := predicted(t, w.spec, now, whole, "20m"), predicted(t, w.spec, now, pieces, "20m")
		// The last step of each piece stands for no time.
		average := func(hours, seconds float64) float64 { return hours * 3600 / seconds }
		want, got := average(one.New.ReplicaHours, one.CoveredSeconds), average(many.New.ReplicaHours, many.CoveredSeconds)
		if math.Abs(got/want-1) > 0.01 || math.Abs(float64(many.New.Changes-one.New.Changes)) > 3 || math.Abs(float64(many.New.MostInAnHour-one.New.MostInAnHour)) > 2 ||
			!many.AsOld || many.PodsMeasured != one.PodsMeasured || math.Abs(many.Model.MissPercent()-one.Model.MissPercent()) > 1 {
			t.Errorf("%s: %.2f replicas on average in pieces, %.2f in one\n%+v\n%+v", w.edits[i].name, got, want, many, one)
		}
	}
	// So it is in a back-test, whose last piece ends as the whole does, also if it is in a file of its own, as when an agent rotates.
	last := func(recorded ...string) (b replay.Backtest) {
		args := []string{"backtest", "--spec", clitest.File(t, "new.yaml", w.edits[1].of(w.spec)), "--cpu-limit=1", "--idle=cpu=20m", "-o=json"}
		for _, file := range recorded {
			args = append(args, clitest.File(t, "flight.jsonl", file))
		}
		got := run(t, "", args...)
		lines := strings.Split(strings.TrimSpace(got.Stdout), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &b); err != nil || got.Code != 0 {
			t.Fatal(err, got.Stderr)
		}
		return b
	}
	n := len(engine.pieces) - 1
	if many, rotated := last(pieces), last(encoded(t, engine.pieces[:n]...), encoded(t, engine.pieces[n:]...)); !reflect.DeepEqual(many, rotated) {
		t.Errorf("the last piece in a file of its own: %+v, in one with the others: %+v", rotated, many)
	}
	if one, many := last(whole), last(pieces); one.Continued || !many.Continued || many.ClosedLoop.Other.Most > one.ClosedLoop.Other.Most {
		t.Errorf("the last piece: %+v, of %+v", many.ClosedLoop, one.ClosedLoop)
	}
}
