package main

import (
	"fmt"
	"regexp"
)

// withoutGates says in place of what autoscaling/v2 says of feature gates, which Setpoint has none of, what holds here.
func withoutGates(root *schema) error {
	gated := regexp.MustCompile(`\s+minReplicas\s+is\s+allowed\s+to\s+be\s+0\s+if\s+the\s+alpha\s+feature\s+gate\s+HPAScaleToZero\s+is\s+enabled\s+and\s+` +
		`|\s*This\s+is\s+an\s+beta\s+field\s+and\s+requires\s+the\s+HPAConfigurableTolerance\s+feature\s+gate\s+to\s+be\s+enabled\.`)
	mentions := regexp.MustCompile(`feature\s+gate`)
	replaced := map[string]string{"spec.minReplicas": "  minReplicas is allowed to be 0 if\noptions.scaleToZero is true and "}
	for _, direction := range directions {
		replaced[direction+".tolerance"] = ""
	}
	for path, by := range replaced {
		found := false
		if err := at(root, path, func(s *schema) {
			found = gated.MatchString(s.Description)
			s.Description = gated.ReplaceAllString(s.Description, by)
		}); err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%s: its description says nothing of a feature gate any more", path)
		}
	}
	var err error
	walk(root, func(s *schema) {
		if mentions.MatchString(s.Description) {
			err = fmt.Errorf("a description is of a feature gate: %s", s.Description)
		}
	})
	return err
}
