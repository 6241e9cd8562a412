#include "test/sched/scene_calls.h"

struct scene_calls
scene_calls_parse(const char *text, const char *const *words, uint32_t word_count)
{
    struct scene_calls calls = { .count = 0 };
    while (text != NULL && *text != '\0') {
        size_t bytes = strcspn(text, ", ");
        struct scene_call *call = &calls.calls[calls.count++];
        CHECK(calls.count <= SCENE_CALLS);
        while (strncmp(words[call->word], text, bytes) != 0 || words[call->word][bytes] != '\0') {
            CHECK(++call->word < word_count);
        }
        text += bytes;
        if (text[0] == ' ') {
            CHECK(text[1] >= 'a' && text[1] <= 'z');
            call->letter = (uint32_t)(text[1] - 'a');
            text += 2;
        }
        text += strspn(text, ", ");
    }
    return calls;
}
