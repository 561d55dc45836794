package docs_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// What README says of the comparison with real controllers is what the report has.
func TestFiguresOfTheReadmeAreThoseOfTheReport(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text := testpages.Read(t, "../../"+name)
		return strings.Join(strings.Fields(text), " ")
	}
	rows := regexp.MustCompile("\\| `v[\\d.]+` \\| v[\\d.]+ \\| [\\d–]+ \\| \\d+ \\| (\\d+) \\|").FindAllStringSubmatch(read("conformance/REPORT.md"), -1)
	said := regexp.MustCompile(`real controllers of (\w+) Kubernetes versions and through Setpoint, some ([\d,]+) steps each`).FindStringSubmatch(read("README.md"))
	if said == nil {
		t.Fatal("README.md does not say how much was compared")
	}
	words := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
	if len(rows) >= len(words) || said[1] != words[len(rows)] {
		t.Errorf("README.md tells of %s versions, the report has %d", said[1], len(rows))
	}
	want, _ := strconv.Atoi(strings.ReplaceAll(said[2], ",", ""))
	for _, row := range rows {
		if steps, _ := strconv.Atoi(row[1]); steps < want || steps > want+want/10 {
			t.Errorf("README.md tells of some %d steps, the report has %d", want, steps)
		}
	}
}
