package playground_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/playground"
)

// answered is an answer as a page reads it.
type answered struct {
	Problems []playground.Problem `json:"problems"`
	Findings []struct {
		Rule, Field string
		Line        int
	} `json:"findings"`
	Run *struct {
		Steps, Stride int
		Fleet         bool
		At, Load      []float64
		Runs          []struct {
			Name             string
			Replicas, Ready  []int32
			Proposal, Held   []*int32
			Capacity, Queued []*float64
			Causes           []int
			CauseNames       []string
			Metrics          []struct {
				Name     string
				Ratio    []*float64
				Proposal []*int32
			}
			Actions []struct {
				Step     int
				From, To int32
				Reason   string
			}
		}
		Recorded *struct {
			Counts                    []*float64
			Least, Most, ReplicaHours float64
			Same                      []float64
		}
		LeftOut int
		Covered *float64
		Unfit   *struct {
			Load, Replicas float64
			Bound          int32
			Few            bool
		}
		Rows []struct {
			Name   string
			Values []string
			Best   []int
		}
	} `json:"run"`
	Step *struct {
		At            float64
		Summary, Text string
	} `json:"step"`
	Export string            `json:"export"`
	Files  map[string]string `json:"files"`
}

func ask(t *testing.T, q playground.Question) answered {
	t.Helper()
	question, err := json.Marshal(q)
	fatal.If(t, err)
	var out answered
	fatal.If(t, json.Unmarshal(playground.Answer(question), &out))
	return out
}

// shop is the example of the documents, with both its specs.
func shop(t *testing.T) playground.Question {
	t.Helper()
	const folder = "../examples/simulation/"
	return playground.Question{Ask: "simulate", Scenario: testpages.Read(t, folder+"web.yaml"), Specs: []playground.SpecText{
		{Name: "A", Text: testpages.Read(t, folder+"hpa.yaml")}, {Name: "B", Text: testpages.Read(t, folder+"careful.yaml")},
	}}
}

func hasText(s, part string) bool { return strings.Contains(s, part) }
