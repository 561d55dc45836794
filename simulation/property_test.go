package simulation_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
)

const simulations = 300

func about(a, b, scale float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(scale)) }

// Load is served, waits, comes back or is lost, at every step; and it is the trace's.
func TestNoLoadGetsLostUnnoticed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(simulations) {
		s, a := simulationtest.Random(seed, 120)
		result, err := simulation.Run(s, a, func(step *simulation.Step) error {
			offered := s.Load.Volume(0, step.At)
			if kept := step.Served + step.Queued + step.Lost; kept > offered+1e-9*(1+offered) {
				return fmt.Errorf("at %s: %g served, %g queued and %g lost are more than %g offered", step.At, step.Served, step.Queued, step.Lost, offered)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		f := result.Figures
		if !about(f.Offered, f.Served+f.Queued+f.Returning+f.Lost, f.Offered) || !about(f.Offered, s.Load.Volume(0, s.Duration), f.Offered) {
			t.Errorf("seed %d: offered %g, of the trace %g; served %g, queued %g, returning %g, lost %g", seed, f.Offered, s.Load.Volume(0, s.Duration), f.Served, f.Queued, f.Returning, f.Lost)
		}
		if s.Workload.Retries.Count == 0 && f.Returning != 0 || s.Workload.Queue.Size == 0 && f.Queued+f.Late != 0 {
			t.Errorf("seed %d: without a queue and retries %g wait and %g come back", seed, f.Queued, f.Returning)
		}
		if f.Late > f.Offered+1e-9*(1+f.Offered) {
			t.Errorf("seed %d: %g had to wait of %g offered", seed, f.Late, f.Offered)
		}
	}
}

// What pods are shown to have used is what was served.
func TestPodsServeWhatIsServed(t *testing.T) {
	t.Parallel()
	for _, imbalance := range []float64{0, 0.5} {
		w := web(5)
		w.Imbalance, w.Capacity = imbalance, 40
		s := &simulation.Scenario{Start: start, Duration: time.Hour, Load: trace(t, 0, 20, 3600, 300), Workload: w}
		used, from := 0.0, 0.0
		_, err := simulation.Run(s, onCPU(5, 5, 60), func(step *simulation.Step) error {
			if step.At == 0 {
				return nil
			}
			if len(step.Input.PodMetrics) != 5 {
				return fmt.Errorf("at %s: %d samples", step.At, len(step.Input.PodMetrics))
			}
			for _, m := range step.Input.PodMetrics {
				used += float64(m.Containers[0].Usage[0].Milli) * m.Window.Seconds()
			}
			// Each sample is rounded up to a milli-unit.
			if most := used - 10*(step.Served-from); most < -1e-3 || most > 5*15*float64(step.At/(15*time.Second))+1e-3 {
				return fmt.Errorf("at %s: samples add up to %g, served was %g", step.At, used, step.Served)
			}
			return nil
		})
		if err != nil {
			t.Errorf("imbalance %g: %v", imbalance, err)
		}
	}
}

// With the same count, more capacity, a larger queue or a longer patience lose no more, and
// more load is served no less.
func TestMoreOfAGoodThingLosesNoMore(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	for seed := range uint64(simulations) {
		base := func() (*simulation.Scenario, *simulation.Autoscaler) {
			s, a := simulationtest.Random(seed, 80)
			s.Events, s.Workload.Retries = nil, simulation.Retries{}
			s.Workload.Queue.Timeout = 0
			s.Workload.Capacity = 20
			a.Spec.MinReplicas = *s.Workload.Replicas
			a.Spec.MaxReplicas = a.Spec.MinReplicas
			return s, a
		}
		of := func(change func(*simulation.Scenario)) simulation.Figures {
			s, a := base()
			change(s)
			return run(t, s, a).Figures
		}
		plain := of(func(*simulation.Scenario) {})
		for name, change := range map[string]func(*simulation.Scenario){
			"capacity": func(s *simulation.Scenario) { s.Workload.Capacity *= 1.5 },
			"queue":    func(s *simulation.Scenario) { s.Workload.Queue.Size += 500 },
		} {
			if more := of(change); more.Lost > plain.Lost+1e-6*(1+plain.Offered) || more.Served < plain.Served-1e-6*(1+plain.Offered) {
				t.Errorf("seed %d: more %s: %g lost and %g served, before %g and %g", seed, name, more.Lost, more.Served, plain.Lost, plain.Served)
			}
		}
		more := of(func(s *simulation.Scenario) { s.Load, _ = s.Load.Scale(1.3) })
		if more.Served < plain.Served-1e-6*(1+plain.Offered) || more.Lost < plain.Lost-1e-6*(1+plain.Offered) || more.ShortTime < plain.ShortTime {
			t.Errorf("seed %d: more load: %g served, %g lost, short for %s; before %g, %g, %s", seed, more.Served, more.Lost, more.ShortTime, plain.Served, plain.Lost, plain.ShortTime)
		}
	}
}

// The same constant load scaled up ends with no fewer replicas.
func TestMoreLoadNeedsNoFewerReplicas(t *testing.T) {
	t.Parallel()
	last := int32(0)
	for load := 1.0; load < 500; load *= 1.2 {
		s := &simulation.Scenario{Start: start, Duration: 30 * time.Minute, Load: trace(t, 0, load), Workload: web(1)}
		all := counts(t, s, onCPU(1, 20, 60))
		if end := all[len(all)-1]; end < last {
			t.Errorf("a load of %g ends with %d replicas, less with %d", load, end, last)
		} else {
			last = end
		}
	}
	if last != 17 {
		// 500 / 1.2^k: the last load is 488.9, 17 pods of 30 are 4 % below, within tolerance.
		t.Errorf("the largest load ends with %d replicas, want 17", last)
	}
}

// Bounds hold at every step, but where somebody else sets the count.
func TestCountsStayWithinBounds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(simulations) {
		s, a := simulationtest.Random(seed, 100)
		_, err := simulation.Run(s, a, func(step *simulation.Step) error {
			if d := step.Decision; d.Desired < a.Spec.MinReplicas || d.Desired > a.Spec.MaxReplicas {
				if d.Path != recommender.PathScalingDisabled && d.Changes() {
					return fmt.Errorf("at %s: %d replicas", step.At, d.Desired)
				}
			}
			if step.Needed < a.Spec.MinReplicas || step.Needed > a.Spec.MaxReplicas {
				return fmt.Errorf("at %s: %d needed", step.At, step.Needed)
			}
			return nil
		})
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// fingerprint is all that is seen of a run, floats by their bits.
func fingerprint(t *testing.T, s *simulation.Scenario, engine simulation.Engine, a *simulation.Autoscaler) string {
	t.Helper()
	var out bytes.Buffer
	result, err := simulation.RunWith(s, a, engine, func(step *simulation.Step) error {
		fmt.Fprintf(&out, "%s %x %x %x %x %d %d %d %d %d %s", step.At, step.Load, step.Capacity, step.Served, step.Lost, step.Replicas, step.Ready, step.Running, step.Proposal, step.Decision.Desired, step.Cause)
		for _, m := range step.Input.PodMetrics {
			fmt.Fprintf(&out, " %s=%v", m.Pod, m.Containers[0].Usage)
		}
		for _, r := range step.Input.Readings {
			fmt.Fprintf(&out, " %v", r.Values)
		}
		out.WriteByte('\n')
		return nil
	})
	fatal.If(t, err)
	fmt.Fprintf(&out, "%x %x %x\n", result.Figures.ReplicaHours, result.Figures.Efficiency, result.Figures.Offered)
	return out.String()
}

func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	t.Parallel()
	differ := 0
	for seed := range uint64(50) {
		s, a := simulationtest.Random(seed, 100)
		first := fingerprint(t, s, simulation.NewEngine(a.Namespace), a)
		if again := fingerprint(t, s, simulation.NewEngine(a.Namespace), a); again != first {
			t.Errorf("seed %d: two runs differ", seed)
		}
		s.Seed += 1000
		if fingerprint(t, s, simulation.NewEngine(a.Namespace), a) != first {
			differ++
		}
	}
	if differ < 10 {
		t.Errorf("of 50 scenarios only %d depend on the seed", differ)
	}
}

// encoded keeps its history as a store does: encoded between two steps.
type encoded struct {
	namespace string
	value     []byte
}

func (e *encoded) history() (recommender.History, error) {
	if e.value == nil {
		return recommender.History{}, nil
	}
	return encoding.DecodeHistory(e.value)
}

func (e *encoded) Recommend(now time.Time, in *recommender.Input) (recommender.Decision, error) {
	history, err := e.history()
	if err != nil {
		return recommender.Decision{}, err
	}
	decision, next := recommender.Recommend(now, in, &history)
	e.value = encoding.AppendHistory(nil, &next)
	return decision, nil
}

func (e *encoded) Settle(id recommender.ID, outcome recommender.Outcome, message string) error {
	history, err := e.history()
	if err != nil {
		return err
	}
	_, next, err := recommender.Settle(history, e.namespace, id, outcome, message)
	e.value = encoding.AppendHistory(nil, &next)
	return err
}

func TestAHistoryInAStoreGivesTheSameRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		s, a := simulationtest.Random(seed, 100)
		if fingerprint(t, s, &encoded{namespace: a.Namespace}, a) != fingerprint(t, s, simulation.NewEngine(a.Namespace), a) {
			t.Errorf("seed %d: the runs differ", seed)
		}
	}
}

// A run writes into nothing that it is given.
func TestARunLeavesItsInputAsItIs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		s, a := simulationtest.Random(seed, 60)
		again, b := simulationtest.Random(seed, 60)
		run(t, s, a)
		if !reflect.DeepEqual(s, again) || !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d: the scenario or the autoscaler has changed", seed)
		}
	}
}

func TestAnObserverEndsARun(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	s, a := simulationtest.Random(1, 60)
	steps := 0
	if _, err := simulation.Run(s, a, func(*simulation.Step) error { steps++; return stop }); !errors.Is(err, stop) || steps != 1 {
		t.Errorf("%d steps, %v", steps, err)
	}
}

// Go may fuse a product and a sum into one rounding on some processors. A product that is
// converted is rounded by itself: mul does that, and nothing else may multiply floats. Nor
// may the functions of package math be used that are assembly on some processors.
func TestProductsOfFloatsAreRounded(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	fatal.If(t, err)
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text := testpages.Read(t, name)
		file, err := parser.ParseFile(fset, name, []byte(text), 0)
		fatal.If(t, err)
		parsed = append(parsed, file)
	}
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	list.Stderr = os.Stderr
	listed, err := list.Output()
	fatal.If(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(listed)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	if _, err := config.Check("simulation", fset, parsed, info); err != nil {
		t.Fatal(err)
	}
	isFloat := func(e ast.Expr) bool {
		b, ok := info.Types[e].Type.(*types.Basic)
		return ok && b.Info()&types.IsFloat != 0
	}
	allowed := map[string]bool{"Ceil": true, "Floor": true, "Round": true, "IsNaN": true, "IsInf": true, "Inf": true, "NaN": true, "Frexp": true, "Ldexp": true, "Ln2": true, "Sqrt2": true, "Pi": true, "MaxInt64": true}
	products := 0
	for _, file := range parsed {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "mul" || n.Name.Name == "half" {
					products++
					return false
				}
			case *ast.BinaryExpr:
				if n.Op == token.MUL && isFloat(n) && info.Types[n].Value == nil {
					t.Errorf("%s: a product of floats without mul", fset.Position(n.Pos()))
				}
				// A division by a power of two is compiled to a product.
				if divisor := info.Types[n.Y].Value; n.Op == token.QUO && isFloat(n) && divisor != nil && info.Types[n].Value == nil {
					if f, _ := constant.Float64Val(constant.ToFloat(divisor)); powerOfTwo(f) {
						t.Errorf("%s: a half of a float without half", fset.Position(n.Pos()))
					}
				}
			case *ast.AssignStmt:
				if n.Tok == token.MUL_ASSIGN && isFloat(n.Lhs[0]) {
					t.Errorf("%s: a product of floats without mul", fset.Position(n.Pos()))
				}
			case *ast.SelectorExpr:
				if p, ok := n.X.(*ast.Ident); ok && p.Name == "math" && !allowed[n.Sel.Name] {
					t.Errorf("%s: math.%s may differ between processors", fset.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
	if products != 2 {
		t.Errorf("found mul and half %d times", products)
	}
}

func powerOfTwo(f float64) bool {
	fraction, _ := math.Frexp(f)
	return math.Abs(fraction) == 0.5
}
