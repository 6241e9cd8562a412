#include "tools/client/value.h"

struct value *
value_list_append(struct value_list *list)
{
    if (list->count == list->room) {
        uint32_t room = list->room == 0 ? 64 : list->room * 2;
        struct value *values;
        if (room > VALUE_COUNT_MAX || (values = realloc(list->values, room * sizeof(*values))) == NULL) {
            return NULL;
        }
        list->values = values;
        list->room = room;
    }
    struct value *value = &list->values[list->count++];
    *value = (struct value){ .after = list->count };
    return value;
}

void
value_list_fini(struct value_list *list)
{
    free(list->values);
    *list = (struct value_list){ 0 };
}
