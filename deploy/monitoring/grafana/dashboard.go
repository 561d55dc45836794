package main

// variable is a choice at the top of a dashboard: the values of a label.
type variable struct {
	name  string
	title string
	query string // label_values(metric, label)
	one   bool   // exactly one value, instead of any number
}

// dashboard is one page of Grafana.
type dashboard struct {
	uid       string
	title     string
	about     string
	variables []variable
	panels    []panel
}

// json returns the dashboard as Grafana imports it: with the oldest schema that has all of
// what is used, so that Grafana 10 and later read it.
func (d dashboard) json() object {
	return object{
		"uid": d.uid, "title": d.title, "description": d.about, "tags": []string{"setpoint"},
		"schemaVersion": 39, "editable": true, "timezone": "browser", "graphTooltip": 1, "refresh": "30s",
		"time":       object{"from": "now-3h", "to": "now"},
		"links":      []object{{"type": "dashboards", "title": "Setpoint", "tags": []string{"setpoint"}, "asDropdown": true, "includeVars": false, "keepTime": true}},
		"templating": object{"list": d.templating()},
		"panels":     d.place(),
	}
}

// templating returns the variables, the datasource first.
func (d dashboard) templating() []object {
	list := []object{{"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "current": object{}, "hide": 0}}
	for _, v := range d.variables {
		o := object{
			"type": "query", "name": v.name, "label": v.title, "datasource": datasource,
			"query":      object{"query": v.query, "refId": "variable"},
			"definition": v.query, "refresh": 2, "sort": 1, "multi": !v.one, "includeAll": !v.one,
		}
		if !v.one {
			o["allValue"] = ".*"
			o["current"] = object{"text": []string{"All"}, "value": []string{"$__all"}}
		}
		list = append(list, o)
	}
	return list
}

// place puts the panels beside each other while a row of the grid has room.
func (d dashboard) place() []object {
	out := make([]object, 0, len(d.panels))
	x, y, height := 0, 0, 0
	for i, p := range d.panels {
		if x+p.width > gridWidth {
			x, y, height = 0, y+height, 0
		}
		out = append(out, p.json(i+1, x, y))
		x += p.width
		height = max(height, p.height)
	}
	return out
}
