package validation

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// TestStructureAgreesWithProtovalidate compares both on random messages of every kind of
// request, with values on both sides of each rule.
func TestStructureAgreesWithProtovalidate(t *testing.T) {
	oracle, err := protovalidate.New()
	fatal.If(t, err)
	rounds := 400
	if testing.Short() {
		rounds = 50
	}
	for _, input := range requests() {
		t.Run(string(input.Name()), func(t *testing.T) {
			t.Parallel()
			messageType, err := protoregistry.GlobalTypes.FindMessageByName(input.FullName())
			fatal.If(t, err)
			broken := map[string]int{}
			for seed := range rounds {
				m := messageType.New()
				// Few fields are wrong in some messages and many in others.
				g := &generator{rand.New(rand.NewPCG(uint64(seed), 1)), float64(seed%10) / 30}
				g.fill(m)
				want := oracleViolations(t, oracle, m)
				got := Structure(m.Interface())
				if len(want) > MostViolations {
					if len(got) != MostViolations+1 || got[MostViolations] != More {
						t.Fatalf("%d of %d violations of %v", len(got), len(want), m.Interface())
					}
					got, want = got[:MostViolations], nil
				}
				for _, v := range got {
					broken[v.Description[:min(len(v.Description), 20)]]++
				}
				slices.SortFunc(got, compare)
				if want != nil && !slices.Equal(got, want) {
					t.Fatalf("seed %d:\n%v\nwant\n%v", seed, got, want)
				}
			}
			t.Logf("%d rules broken in different words: %v", len(broken), broken)
		})
	}
}

func compare(a, b Violation) int { return strings.Compare(a.String(), b.String()) }

// oracleViolations are what protovalidate has to say of a message, sorted.
func oracleViolations(t *testing.T, oracle protovalidate.Validator, m protoreflect.Message) []Violation {
	err := oracle.Validate(m.Interface())
	if err == nil {
		return []Violation{}
	}
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) {
		t.Fatal(err)
	}
	violations := make([]Violation, len(broken.Violations))
	for i, v := range broken.Violations {
		violations[i] = Violation{Field: jsonPath(m.Descriptor(), v.Proto.GetField()), Description: strings.Replace(v.Proto.GetMessage(), "in list [, ", "in list [", 1) + got(v.FieldValue)}
	}
	slices.SortFunc(violations, compare)
	return violations
}

// jsonPath renders a path of protovalidate with the fields' JSON names.
func jsonPath(message protoreflect.MessageDescriptor, path *validate.FieldPath) string {
	var parts []string
	for _, element := range path.GetElements() {
		fd := message.Fields().ByNumber(protoreflect.FieldNumber(element.GetFieldNumber()))
		part := fd.JSONName()
		if element.HasIndex() {
			part += "[" + strconv.FormatUint(element.GetIndex(), 10) + "]"
		}
		parts, message = append(parts, part), fd.Message()
	}
	return strings.Join(parts, ".")
}

// generator makes messages. wrong is how likely a value is one that its rules refuse, or is
// at the edge of what they take.
type generator struct {
	*rand.Rand
	wrong float64
}

func (g *generator) fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		rules := RulesOf(fd)
		if !rules.GetRequired() && len(rules.GetCel()) == 0 && g.Float64() < 0.3 || g.Float64() < g.wrong/4 {
			continue
		}
		switch {
		case fd.IsMap():
			pairs := m.Mutable(fd).Map()
			for i := range g.length(rules.GetMap().GetMaxPairs()) {
				pairs.Set(protoreflect.ValueOfString(fmt.Sprint("k", i)).MapKey(), protoreflect.ValueOfString("1"))
			}
		case fd.IsList():
			g.list(m.Mutable(fd).List(), fd, rules)
		case fd.Message() != nil:
			g.fill(m.Mutable(fd).Message())
		default:
			m.Set(fd, g.scalar(fd, rules))
		}
	}
}

func (g *generator) list(list protoreflect.List, fd protoreflect.FieldDescriptor, rules *validate.FieldRules) {
	n := g.length(rules.GetRepeated().GetMaxItems())
	for i := range n {
		switch {
		case fd.Message() == nil:
			list.Append(g.scalar(fd, nil))
		case i < 3:
			g.fill(list.AppendMutable().Message())
		default:
			list.Append(list.Get(i % 3)) // so that long lists take little
		}
	}
}

// length is the length of a list or a map with that limit.
func (g *generator) length(most uint64) int {
	if most > 0 && most <= 1000 && g.Float64() < g.wrong/8 {
		return int(most) + g.IntN(2)
	}
	return g.IntN(3)
}

func (g *generator) scalar(fd protoreflect.FieldDescriptor, rules *validate.FieldRules) protoreflect.Value {
	odd := g.Float64() < g.wrong
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(g.text(rules, odd))
	case protoreflect.DoubleKind:
		if odd {
			return protoreflect.ValueOfFloat64([]float64{-1, -math.SmallestNonzeroFloat64, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1)}[g.IntN(6)])
		}
		return protoreflect.ValueOfFloat64(g.Float64() * 100)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		if odd {
			return protoreflect.ValueOfInt32([]int32{-1, math.MinInt32, math.MaxInt32, 1000, 1001}[g.IntN(5)])
		}
		return protoreflect.ValueOfInt32(g.Int32N(1000))
	case protoreflect.Int64Kind:
		if odd {
			return protoreflect.ValueOfInt64([]int64{-1, math.MinInt64, -5e9}[g.IntN(3)])
		}
		return protoreflect.ValueOfInt64(g.Int64N(1000))
	}
	return fd.Default()
}

func (g *generator) text(rules *validate.FieldRules, odd bool) string {
	words := rules.GetString().GetIn()
	most := int(rules.GetString().GetMaxLen())
	switch {
	case len(rules.GetCel()) > 0 && odd:
		return []string{"", "web", "clusters/a/namespaces/-", "clusters/a/namespaces/..", "clusters/-/namespaces/-/targets/-", "clusters/a/namespaces/b/targets/c\n"}[g.IntN(6)]
	case len(rules.GetCel()) > 0:
		return []string{"clusters/a/namespaces/b/targets/c", "clusters/-/namespaces/b"}[g.IntN(2)]
	case odd && most > 0:
		return strings.Repeat([]string{"c", "é", "/"}[g.IntN(3)], most+g.IntN(2))
	case odd:
		return []string{"", "Runing", "a b", "é", "x" + strings.Repeat("é", 40)}[g.IntN(5)]
	case len(words) > 0:
		return words[g.IntN(len(words))]
	}
	return "a"
}
