package karmada

import (
	"bytes"
	"encoding/json"
	"go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/fleet"
)

// The release, and the hash of its module. Its package has 700 dependencies, and takes minutes to compile; the
// file with the function needs the standard library only, so it is compiled by itself.
const (
	module = "github.com/karmada-io/karmada@v1.16.0"
	hash   = "h1:RD58HD7xp0+FKDWkJRygBsN/ht3k7gbBZa0xBzWSio4="
	source = "pkg/util/helper/webstermethod.go"
)

// command runs a command in a folder that is no module's.
func command(t *testing.T, folder string, in []byte, name string, args ...string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Stdin = folder, bytes.NewReader(in)
	c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, said.String())
	}
	return out
}

// build compiles Karmada's function into a program, and returns its path.
func build(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	var found struct{ Sum, Dir string }
	if err := json.Unmarshal(command(t, folder, nil, "go", "mod", "download", "-json", module), &found); err != nil {
		t.Fatal(err)
	}
	if found.Sum != hash {
		t.Fatalf("%s has the hash %s, want %s", module, found.Sum, hash)
	}
	upstream, err := os.ReadFile(filepath.Join(found.Dir, source))
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), source, upstream, parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	upstream = slices.Concat(upstream[:file.Name.Pos()-1], []byte("main"), upstream[file.Name.End()-1:])
	ours, err := os.ReadFile(filepath.Join("testdata", "seats.go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"go.mod": []byte("module seats\n\ngo 1.24\n"), "webster.go": upstream, "seats.go": ours} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(folder, "seats")
	command(t, folder, nil, "go", "build", "-o", program, ".")
	return program
}

// workload is a fleet that grows: the weights and first shares of its members, and what each step adds.
type workload struct{ Weights, Begin, Added []int32 }

func newWorkload(r *rand.Rand) *workload {
	n := 3 + r.IntN(62)
	w := &workload{Weights: make([]int32, n), Begin: make([]int32, n)}
	most, drifted := []int{3, 20, fleet.MaxWeight}[r.IntN(3)], r.IntN(3) == 0
	for i := range n {
		w.Weights[i] = 1 + int32(r.IntN(most))
		if drifted {
			w.Begin[i] = int32(r.IntN(30))
		}
	}
	for range 4 + r.IntN(30) {
		w.Added = append(w.Added, []int32{0, 1, 1, 1, 2, int32(r.IntN(20)), int32(r.IntN(20 * n))}[r.IntN(7)])
	}
	return w
}

// Without floors and caps, a count that grows is shared out as Karmada does: at each step, from shares that
// were made so, and from any others.
func TestAGrowingCountIsSharedOutAsInKarmada(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 0))
	var all []*workload
	var in bytes.Buffer
	asked := json.NewEncoder(&in)
	for range 2000 {
		all = append(all, newWorkload(r))
		if err := asked.Encode(all[len(all)-1]); err != nil {
			t.Fatal(err)
		}
	}
	answers := json.NewDecoder(bytes.NewReader(command(t, "", in.Bytes(), build(t))))
	steps, replicas := 0, 0
	for i, w := range all {
		var want [][]int32
		if err := answers.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if len(want) != len(w.Added) {
			t.Fatalf("fleet %d: %d steps are answered, want %d", i, len(want), len(w.Added))
		}
		shares, total := w.Begin, int32(0)
		for _, share := range w.Begin {
			total += share
		}
		for step, added := range w.Added {
			seats := make([]fleet.Seat, len(shares))
			for k := range seats {
				seats[k] = fleet.Seat{Weight: w.Weights[k], Cap: math.MaxInt32, Last: shares[k], Ready: shares[k]}
			}
			total += added
			shares = fleet.Split(seats, total, 0).Of
			if !slices.Equal(shares, want[step]) {
				t.Fatalf("fleet %d, step %d: weights %v, begin %v, %v are added\n got %v\nwant %v", i, step, w.Weights, w.Begin, w.Added[:step+1], shares, want[step])
			}
			steps, replicas = steps+1, replicas+int(added)
		}
	}
	t.Logf("%d fleets, %d steps, %d replicas", len(all), steps, replicas)
	if steps < 30_000 {
		t.Errorf("only %d steps", steps)
	}
}
