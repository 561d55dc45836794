package restjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

func TestMarshal(t *testing.T) {
	history := &setpointv1.History{ScaleUps: []*setpointv1.ScaleEvent{{ReplicaChange: 2}, {Outdated: true}}}
	tests := []struct {
		name   string
		indent string
		v      any
		want   string
	}{
		{
			"defaults are written, absent fields are not",
			"", &setpointv1.Scale{},
			`{"specReplicas":0,"selector":""}`,
		},
		{
			"white space within strings is kept",
			"", &setpointv1.Scale{SpecReplicas: 3, StatusReplicas: proto.Int32(0), Selector: `a = "b",  c < d`},
			`{"specReplicas":3,"statusReplicas":0,"selector":"a = \"b\",  c < d"}`,
		},
		{
			"maps are sorted by key",
			"", &setpointv1.Container{Requests: map[string]string{"memory": "1Gi", "cpu": "1", "storage": "2"}},
			`{"name":"","requests":{"cpu":"1","memory":"1Gi","storage":"2"}}`,
		},
		{
			"nested lists",
			"", history,
			`{"recommendations":[],"scaleUps":[{"replicaChange":2,"outdated":false},{"replicaChange":0,"outdated":true}],"scaleDowns":[]}`,
		},
		{
			"indented",
			"  ", &setpointv1.History{ScaleUps: history.GetScaleUps()[:1]},
			"{\n  \"recommendations\": [],\n  \"scaleUps\": [\n    {\n      \"replicaChange\": 2,\n      \"outdated\": false\n    }\n  ],\n  \"scaleDowns\": []\n}",
		},
		{
			"an element of a stream",
			"", map[string]any{"result": &setpointv1.LoadPoint{Value: 1.5}},
			`{"result":{"value":1.5}}`,
		},
		{
			"the error of a stream, indented",
			"\t", map[string]proto.Message{"error": &setpointv1.Event{Type: "Warning"}},
			"{\n\t\"error\": {\n\t\t\"type\": \"Warning\",\n\t\t\"reason\": \"\",\n\t\t\"message\": \"\"\n\t}\n}",
		},
		{
			"no message",
			"", (*setpointv1.LoadPoint)(nil),
			`{"value":0}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &restjson.Marshaler{Indent: tt.indent}
			got, err := m.Marshal(tt.v)
			fatal.If(t, err)
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			var stream bytes.Buffer
			fatal.If(t, m.NewEncoder(&stream).Encode(tt.v))
			if stream.String() != tt.want+"\n" {
				t.Errorf("encoder wrote %q, want the same and a newline", stream.String())
			}
		})
	}
}

func TestMarshalRefusesWhatJSONCannotHold(t *testing.T) {
	if _, err := new(restjson.Marshaler).Marshal(&setpointv1.Event{Message: "\xff"}); err == nil {
		t.Error("marshalled a string that is not UTF-8")
	}
}

func TestMarshalRoundTrip(t *testing.T) {
	want := decoded(t, string(request(3, `"500m"`)), recommendRequest())
	for _, m := range []*restjson.Marshaler{{}, {Indent: "\t"}} {
		data, err := m.Marshal(want)
		fatal.If(t, err)
		got := recommendRequest()
		fatal.If(t, m.Unmarshal(data, got))
		if !proto.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
}

func TestMarshalerUnmarshalsOtherTypes(t *testing.T) {
	var list []string
	if err := new(restjson.Marshaler).Unmarshal([]byte(`["a", "b"]`), &list); err != nil || len(list) != 2 {
		t.Errorf("got %q, %v", list, err)
	}
}

func TestDecoderDecodesOnce(t *testing.T) {
	dec := new(restjson.Marshaler).NewDecoder(strings.NewReader(`{"replicaChange": 2}`))
	got := &setpointv1.ScaleEvent{}
	if err := dec.Decode(got); err != nil || got.GetReplicaChange() != 2 {
		t.Errorf("first: got %v, %v", got, err)
	}
	if err := dec.Decode(got); err != io.EOF {
		t.Errorf("second: got %v, want io.EOF", err)
	}
}

// The gateway takes io.EOF for "no body, no fields", which an empty body must
// not pass for.
func TestDecoderRefusesNothing(t *testing.T) {
	err := new(restjson.Marshaler).NewDecoder(strings.NewReader("")).Decode(&setpointv1.ScaleEvent{})
	if err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v, want an error other than io.EOF", err)
	}
}

func TestDecoderKeepsReadErrors(t *testing.T) {
	broken := errors.New("connection reset")
	err := new(restjson.Marshaler).NewDecoder(iotest.ErrReader(broken)).Decode(&setpointv1.ScaleEvent{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// A target without shadows is what it was before there were any; with one it has a list.
func TestNoShadowsAreNoField(t *testing.T) {
	for _, tt := range []struct {
		message proto.Message
		has     bool
	}{
		{&setpointv1.Target{Name: `"shadows":[]`}, false},
		{&setpointv1.TargetSpec{}, false},
		{&setpointv1.Target{Shadows: []*setpointv1.ShadowState{{}}}, true},
	} {
		data, err := (&restjson.Marshaler{}).Marshal(tt.message)
		if err != nil || strings.Contains(string(data), `,"shadows":[`) != tt.has || !json.Valid(data) {
			t.Errorf("%v: %s, %v", tt.message, data, err)
		}
	}
}
