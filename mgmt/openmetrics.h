/* openmetrics.h - everything the appliance counts, as a page that Prometheus and its like read. */
#pragma once
#include "mgmt/mgmt.h"

enum openmetrics_form {
    OPENMETRICS_FORM_1,    /* application/openmetrics-text; version=1.0.0 */
    OPENMETRICS_PROMETHEUS /* text/plain; version=0.0.4: what promtool and older readers take */
};

#define OPENMETRICS_TYPE_1          "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define OPENMETRICS_TYPE_PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"

/* Append the page. Names of redis_exporter where it has one for the same thing; the rest begins with sluice_.
 *
 * Threads  management.
 * Cost     reads counters and touched histogram groups; the lcores do not notice. About 100 lines, 30 for each command
 *          that was called, and 50 for each lcore. */
void openmetrics_print(struct mgmt *mgmt, enum openmetrics_form form, struct text *out);
