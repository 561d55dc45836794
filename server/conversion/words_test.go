package conversion

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
)

// constants returns the names of the recommender's constants by their type, in
// the order in which iota counts them.
func constants(t *testing.T) map[string][]string {
	t.Helper()
	const folder = "../../recommender"
	sources, err := fs.Glob(os.DirFS(folder), "*.go")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources of the recommender: %v", err)
	}
	byType := map[string][]string{}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), folder+"/"+source, nil, 0)
		fatal.If(t, err)
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			kind := ""
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				switch {
				case len(value.Values) == 1 && isIota(value.Values[0]):
					kind = ""
					if name, ok := value.Type.(*ast.Ident); ok {
						kind = name.Name
					}
				case len(value.Values) > 0:
					kind = ""
				}
				if kind != "" {
					byType[kind] = append(byType[kind], value.Names[0].Name)
				}
			}
		}
	}
	return byType
}

func isIota(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "iota"
}

func TestEveryConstantHasAWord(t *testing.T) {
	t.Parallel()
	byType := constants(t)
	var outcomes []string
	for i := range byType["Outcome"] {
		outcomes = append(outcomes, Outcome(recommender.Outcome(i)))
	}
	for _, tt := range []struct {
		kind  string
		words []string
		// zeroIsSilent says that the zero value has no word.
		zeroIsSilent bool
	}{
		{"Path", recommender.PathNames(), false},
		{"Calculation", calculations[:], true},
		{"ProposalRule", proposalRules[:], true},
		{"PodGroup", podGroups[:], false},
		{"PodRule", podRules[:], false},
		{"Direction", directions[:], false},
		{"Outcome", outcomes, false},
	} {
		names := byType[tt.kind]
		if len(names) == 0 {
			t.Errorf("the recommender has no constants of the type %s", tt.kind)
		}
		if len(names) != len(tt.words) {
			t.Errorf("%s has the constants %v and %d words", tt.kind, names, len(tt.words))
			continue
		}
		for i, word := range tt.words {
			if silent := i == 0 && tt.zeroIsSilent; (word == "") != silent {
				t.Errorf("the word of %s is %q", names[i], word)
			}
			if slices.Index(tt.words, word) != i {
				t.Errorf("%s and another constant have the word %q", names[i], word)
			}
		}
	}
}

// The words are part of the contract: its comments list them.
func TestTheContractListsEveryWord(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, name := range []string{"explanation", "target_service", "recommendation_service", "observation"} {
		source := testpages.Read(t, "../../proto/setpoint/v1/"+name+".proto")
		text.Write([]byte(source))
	}
	var words []string
	for _, list := range [][]string{recommender.PathNames(), calculations[1:], proposalRules[1:], podGroups[:], directions[:]} {
		words = append(words, list...)
	}
	for i := range constants(t)["Outcome"] {
		words = append(words, Outcome(recommender.Outcome(i)))
	}
	words = append(words, ScaleUp, ScaleDown, NoAction)
	for reason := range scaleErrorReasons {
		words = append(words, reason)
	}
	words = append(words, string(recommender.SelectorRequired), string(recommender.InvalidSelector), string(recommender.AmbiguousSelector))
	for phase := range podPhases {
		words = append(words, phase)
	}
	for _, word := range words {
		// A list of words that wraps may leave out quotes, as in prose.
		if !strings.Contains(text.String(), `"`+word+`"`) && !strings.Contains(text.String(), word+" (") && !strings.Contains(text.String(), word+" and ") {
			t.Errorf("no comment of the contract has the word %q", word)
		}
	}
}

func TestEveryWordOfARequestHasAConstant(t *testing.T) {
	t.Parallel()
	byType := constants(t)
	if got, want := len(scaleErrorReasons)+1, len(byType["ScaleErrorReason"]); got != want { // FailedGet is the zero value
		t.Errorf("%d reasons of scale errors are read, there are %d", got, want)
	}
	if got, want := len(podPhases)+1, len(byType["PodPhase"]); got != want {
		t.Errorf("%d phases are read, there are %d", got, want)
	}
	if got, want := len(readyStatuses)+2, len(byType["ReadyStatus"]); got != want { // none, and unknown
		t.Errorf("%d ready statuses are read, there are %d", got, want)
	}
}
