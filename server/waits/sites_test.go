package waits_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/waits"
)

// queues are all places of the server where calls may wait for each other, by file and what makes
// the queue, with what they wait for; none: why nothing that others need is held there.
var queues = map[string]struct {
	kind waits.Kind
	none string
}{
	"rest/translations.go small":        {kind: waits.Translation},
	"rest/translations.go large":        {kind: waits.Translation},
	"simulations/simulations.go places": {kind: waits.Simulation},
	"simulations/simulations.go turns":  {none: "whoever finds it full is refused"},
	"decision/batch.go make":            {none: "of one batch, whose fleets wait for each other"},
	"services/stream.go places":         {none: "of one stream, which has no ticket while it is not read"},
	"services/targets.go outlooks":      {kind: waits.List},
	"admission/guard.go reading":        {kind: waits.List},
	"requests/requests.go Gate":         {kind: waits.Large},
	"admission/guard.go decoding":       {none: "few wait (waitingToDecode), and their memory is apart from that of recommendations"},
	"signin/exchanges.go turns":         {none: "signing in is no call: it has no ticket and no place"},
}

// A queue that nobody thought of would hold what others need. It belongs to a kind of package waits,
// or the table says why not.
func TestAllQueuesAreKnown(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, root := range []string{"..", "../../sources"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, name := range queuesOf(file) {
				found[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))+" "+name] = true
			}
			return nil
		})
		fatal.If(t, err)
	}
	for site := range found {
		if _, known := queues[site]; !known {
			t.Errorf("%s is a queue that is not in this test's table: let calls wait with waits.For, and add it", site)
		}
	}
	for site, of := range queues {
		if !found[site] {
			t.Errorf("%s is no queue any more", site)
		}
		if (of.kind == 0) == (of.none == "") {
			t.Errorf("%s: needs a kind or a reason, not both", site)
		}
	}
}

// queuesOf returns the names of what is a semaphore or a gate: a channel of nothing that holds more
// than one, gate.New, package semaphore, or a sync.Cond.
func queuesOf(file *ast.File) (names []string) {
	add := func(name string, value ast.Expr) {
		if isQueue(value) {
			names = append(names, name)
		}
	}
	named := map[ast.Expr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				named[n.Value] = true
				add(key.Name, n.Value)
			}
		case *ast.CallExpr:
			if !named[n] {
				add(nameOf(n.Fun), n)
			}
		}
		return true
	})
	return names
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func isQueue(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	if of, ok := call.Fun.(*ast.SelectorExpr); ok {
		from, _ := of.X.(*ast.Ident)
		return from != nil && (from.Name == "gate" && (of.Sel.Name == "New" || of.Sel.Name == "OfProcess") || from.Name == "semaphore" || from.Name == "sync" && of.Sel.Name == "NewCond")
	}
	if nameOf(call.Fun) != "make" || len(call.Args) != 2 {
		return false
	}
	of, ok := call.Args[0].(*ast.ChanType)
	if !ok {
		return false
	}
	_, nothing := of.Value.(*ast.StructType)
	one, literal := call.Args[1].(*ast.BasicLit)
	return nothing && (!literal || one.Value != "1")
}
