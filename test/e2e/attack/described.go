//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1alpha" // described, as the server has it

	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// method is a method of the service, by its descriptor: what is new in the contract is attacked
// without anybody remembering.
type method struct {
	protoreflect.MethodDescriptor
	// verb and path are those of REST, about the hostile target; "": none.
	verb, path string
	body       bool
}

// full is the name by which it is called.
func (m *method) full() string { return fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()) }

// exempt reports whether it is a library's, which is answered under any load.
func (m *method) exempt() bool { return strings.HasPrefix(string(m.FullName()), "grpc.") }

// served are the packages of what the service serves.
var served = regexp.MustCompile(`^(setpoint\.v1|externalscaler|grpc\.(health|reflection)\..*)$`)

// variable matches a variable of a path of REST.
var variable = regexp.MustCompile(`\{\w+=([^}]*)\}`)

// methods are all of them, in the order of their names.
var methods = sync.OnceValue(func() (all []*method) {
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			of := file.Services().Get(i).Methods()
			for k := range of.Len() {
				if !served.MatchString(string(file.Package())) {
					continue
				}
				m := &method{MethodDescriptor: of.Get(k)}
				rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
				for verb, path := range map[string]string{http.MethodGet: rule.GetGet(), http.MethodPost: rule.GetPost(), http.MethodPut: rule.GetPut(), http.MethodDelete: rule.GetDelete()} {
					if path != "" {
						m.verb, m.path, m.body = verb, hostilePath(path), rule.GetBody() != ""
					}
				}
				all = append(all, m)
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b *method) int { return strings.Compare(a.full(), b.full()) })
	return all
})

// hostilePath puts the hostile target into a path.
func hostilePath(path string) string {
	return variable.ReplaceAllStringFunc(path, func(text string) string {
		return strings.Join(strings.Split(hostileTarget, "/")[:strings.Count(text, "/")+1], "/")
	})
}

// describedAttacks are made from the descriptors of what the service serves.
func describedAttacks() []*attack {
	fields := &attack{name: "fields", item: "1", about: "16 MiB of empty elements of each repeated field of each method, one after the other"}
	exempt := &attack{name: "exempt", about: "texts in each field of what libraries serve: many that differ, long ones, answers that nobody reads", prepare: withNobody}
	for _, m := range methods() {
		name := strings.TrimPrefix(m.full()[1:], "setpoint.v1.")
		if lists := repeated(m.Input()); len(lists) > 0 && !m.exempt() {
			// What a new method must not forget is told by each; half of them are of one message.
			short := m.Input().FullName() != "externalscaler.ScaledObjectRef"
			limit := bounds{property: true, limit: 3 * time.Minute}
			fields.steps = append(fields.steps, step{name: name + "/grpc", short: short, bounds: limit, run: everyField(m, lists, false)})
			if m.body {
				fields.steps = append(fields.steps, step{name: name + "/rest", short: m.Name() == "Simulate", bounds: limit, run: everyField(m, lists, true)})
			}
		}
		if m.exempt() {
			quick := bounds{memory: 256, processor: 15 * time.Second, limit: 25 * time.Second}
			some, little := quick, quick
			some.keeps, little.keeps = 16, 6
			exempt.steps = append(exempt.steps, step{name: name + "/unread", short: m.IsStreamingServer(), bounds: quick, run: unreadExempt(m, 48, 15<<20)})
			if named(m, 0, "") == nil {
				continue
			}
			exempt.steps = append(exempt.steps,
				step{name: name + "/names", short: true, bounds: some, run: ended(m, 2000, 100_000)},
				step{name: name + "/short-names", bounds: little, run: ended(m, 40_000, 8)},
				step{name: name + "/long-names", bounds: some, run: ended(m, 30, 15<<20)})
		}
	}
	exempt.steps = append(exempt.steps, step{name: "all-known", short: true, run: allDescribed})
	return []*attack{fields, exempt}
}

// repeated are the paths to the repeated fields of a message, at any depth, once for each type
// of message.
func repeated(m protoreflect.MessageDescriptor) (paths [][]protoreflect.FieldDescriptor) {
	seen := make(map[protoreflect.FullName]bool)
	var visit func(protoreflect.MessageDescriptor, []protoreflect.FieldDescriptor)
	visit = func(m protoreflect.MessageDescriptor, path []protoreflect.FieldDescriptor) {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			here := append(slices.Clone(path), f)
			if f.IsList() || f.IsMap() {
				paths = append(paths, here)
			}
			if of := f.Message(); of != nil && !f.IsMap() && !seen[of.FullName()] && served.MatchString(string(of.ParentFile().Package())) {
				seen[of.FullName()] = true
				visit(of, here)
			}
		}
	}
	visit(m, nil)
	return paths
}

// mostBytes is the largest message, with room for what surrounds a field.
const mostBytes = 16<<20 - 4096

// elements are as many empty elements of a repeated field as fit into that many bytes.
func elements(f protoreflect.FieldDescriptor, size int, inJSON bool) []byte {
	if !inJSON {
		if f.IsPacked() {
			return field(f.Number(), make([]byte, size-16))
		}
		one := append(protowire.AppendTag(nil, f.Number(), protowire.BytesType), 0)
		return bytes.Repeat(one, size/len(one))
	}
	if f.IsMap() {
		var b bytes.Buffer
		for i := 0; b.Len() < size-16; i++ { // keys of JSON objects are there once only
			fmt.Fprintf(&b, `"%x":"",`, i)
		}
		return fmt.Appendf(nil, `{%q:{%s}}`, f.JSONName(), bytes.TrimSuffix(b.Bytes(), []byte(",")))
	}
	empty := "0,"
	switch f.Kind() {
	case protoreflect.MessageKind:
		empty = "{},"
	case protoreflect.StringKind, protoreflect.BytesKind:
		empty = `"",`
	}
	return fmt.Appendf(nil, `{%q:[%s]}`, f.JSONName(), strings.TrimSuffix(strings.Repeat(empty, size/len(empty)), ","))
}

// stuffed is a message about the hostile target with such elements at the end of a path.
func stuffed(m *method, path []protoreflect.FieldDescriptor, size int, inJSON bool) []byte {
	last := path[len(path)-1]
	data := elements(last, size, inJSON)
	for _, f := range slices.Backward(path[:len(path)-1]) {
		switch {
		case !inJSON:
			data = field(f.Number(), data)
		case f.IsList():
			data = fmt.Appendf(nil, `{%q:[%s]}`, f.JSONName(), data)
		default:
			data = fmt.Appendf(nil, `{%q:%s}`, f.JSONName(), data)
		}
	}
	if m.Input().FullName() == "setpoint.v1.RecommendRequest" { // a request that is right otherwise
		if inJSON {
			return joined(base().json, data)
		}
		return append(base().wire, data...)
	}
	for _, name := range []protoreflect.Name{"target", "name"} {
		if f := m.Input().Fields().ByName(name); f != nil && !inJSON { // in REST the path has it
			return append(field(f.Number(), []byte(hostileTarget)), data...)
		}
	}
	return data
}

// everyField sends each repeated field full of empty elements, and tells which raised the peak.
func everyField(m *method, paths [][]protoreflect.FieldDescriptor, overREST bool) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		for _, path := range paths {
			var names []string
			for _, f := range path {
				names = append(names, string(f.Name()))
			}
			data := stuffed(m, path, mostBytes, overREST)
			peak, began := s.peak(), time.Now()
			var err error
			if overREST {
				err = s.rested(ctx, m.verb, m.path, data)
			} else {
				err = s.called(ctx, m, data, "")
			}
			s.sent(1, len(data))
			s.met.Add(codeOf(err))
			if more := s.peak() - peak; more > 16<<20 {
				s.met.AddAll(strings.Join(names, ".")+": peak MiB", int(s.peak()>>20))
			}
			if took := time.Since(began); took > 2*time.Second {
				s.met.AddAll(strings.Join(names, ".")+": ms", int(took.Milliseconds()))
			}
			if ctx.Err() != nil {
				return fmt.Errorf("the fields took longer than the step may: %w", ctx.Err())
			}
		}
		return nil
	}
}

// called calls a method of any kind with one message, and reads the first answer. As "", the
// caller is the honest one.
func (s *site) called(ctx context.Context, m *method, data []byte, as string) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.calledOn(ctx, conn, m, data, as)
}

func (s *site) calledOn(ctx context.Context, conn *grpc.ClientConn, m *method, data []byte, as string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.begun(ctx, conn, m, data, as)
	if err != nil {
		return err
	}
	return stream.RecvMsg(&hostile.Raw{})
}

// begun sends a message, and reads nothing.
func (s *site) begun(ctx context.Context, conn *grpc.ClientConn, m *method, data []byte, as string) (grpc.ClientStream, error) {
	if as == "" {
		ctx = s.asHonest(ctx)
	} else {
		ctx = s.as(ctx, as)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: m.IsStreamingClient()}, m.full(), grpc.ForceCodec(hostile.RawCodec{}))
	if err != nil {
		return nil, err
	}
	_ = stream.SendMsg(&hostile.Raw{Data: data}) // what is wrong is told by what is received
	return stream, nil
}

const someonesPolicy = `
grants:
  - {identities: ["token:honest"], clusters: ["*"], verbs: ["*"]}
`

// withNobody has the service know a caller that may do nothing: its token is good, and no grant is
// its own.
func withNobody(s *site) error {
	if err := asksWho("nobody")(s); err != nil {
		return err
	}
	path, err := s.write("policy.yaml", []byte(someonesPolicy))
	s.flags = append(s.flags, "--policy-file="+path)
	return err
}

// named is a message with a text in one of its fields, in turn; nothing, where it has none.
func named(m *method, turn int, text string) []byte {
	var texts []protoreflect.FieldDescriptor
	for i := range m.Input().Fields().Len() {
		if f := m.Input().Fields().Get(i); f.Kind() == protoreflect.StringKind && f.Cardinality() != protoreflect.Repeated && f.Name() != "host" {
			texts = append(texts, f)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return field(texts[turn%len(texts)].Number(), []byte(text))
}

// ended makes as many calls, each with a text of its own, and ends each after its first answer:
// nothing of them may stay.
func ended(m *method, n, size int) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		long := strings.Repeat("n", size)
		var callers sync.WaitGroup
		for k := range 4 {
			callers.Go(func() {
				conn, err := s.dial()
				if err != nil {
					return
				}
				defer conn.Close()
				for i := k; i < n && ctx.Err() == nil; i += 4 {
					data := named(m, i/4, fmt.Sprint(i, "-", long))
					short, cancel := context.WithTimeout(ctx, 5*time.Second)
					err := s.calledOn(short, conn, m, data, "nobody")
					cancel()
					s.sent(1, len(data))
					s.met.Add(codeOf(err))
				}
			})
		}
		callers.Wait()
		return nil
	}
}

// unreadExempt makes as many calls on one connection, and reads no answer.
func unreadExempt(m *method, n, size int) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		conn, err := s.dialNarrow()
		if err != nil {
			return err
		}
		defer conn.Close()
		for i := range n {
			data := named(m, i, fmt.Sprint(i, "-", strings.Repeat("n", size)))
			// One after the other: a message that has arrived is no unfinished one.
			if _, err := s.begun(ctx, conn, m, data, "nobody"); err != nil {
				s.met.Add("refused")
				break
			}
			s.sent(1, len(data))
		}
		pause(ctx, 3*time.Second)
		s.met.AddAll("MiB", int(s.resident()>>20))
		return nil
	}
}

// allDescribed looks whether the service serves what these attacks don't know.
func allDescribed(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(s.asHonest(ctx))
	if err != nil {
		return err
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	s.sent(1, 10)
	for _, service := range answer.GetListServicesResponse().GetService() {
		s.met.Add("services")
		if !slices.ContainsFunc(methods(), func(m *method) bool { return string(m.Parent().FullName()) == service.GetName() }) {
			return fmt.Errorf("the service serves %s, which is not attacked: import its descriptors", service.GetName())
		}
	}
	if s.met.Of("services") < 6 {
		return fmt.Errorf("only %d services were found", s.met.Of("services"))
	}
	return nil
}
