"""The solver's signature, for those who bring no program of their own."""

import dspy


class AnswerQuestion(dspy.Signature):
    """Answer the question. Write in the language of the question. When it is a conversation, answer its last turn."""

    question: str = dspy.InputField(desc="the question, or a conversation whose last turn is to be answered")
    response: str = dspy.OutputField(desc="the complete answer, as the person who asked will read it")
